// Copying, with a fallback without the clipboard API.

export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea') // the clipboard API requires HTTPS
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

// copyOf returns the URL of a link, or the text that it links to.
export async function copyOf(link) {
  if ('copyLink' in link.dataset) return link.href
  const response = await fetch(link.href)
  if (!response.ok) throw new Error(await response.text())
  return response.text()
}
