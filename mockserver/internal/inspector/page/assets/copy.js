// Copying, also where there is no clipboard.

export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea') // without TLS there is no clipboard
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

// copyOf returns what a link stands for: itself, or the text that it leads to.
export async function copyOf(link) {
  if ('copyLink' in link.dataset) return link.href
  const response = await fetch(link.href)
  if (!response.ok) throw new Error(await response.text())
  return response.text()
}
