// Copying, with a fallback without the clipboard API.

import { request } from './html.js'

export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea') // the clipboard API requires HTTPS
  area.value = text
  document.body.append(area)
  area.select()
  const copied = document.execCommand('copy')
  area.remove()
  if (!copied) throw new Error('The browser does not allow copying.')
}

// copyOf returns the URL of a link, or the text that it links to.
export async function copyOf(link) {
  if ('copyLink' in link.dataset) return link.href
  const response = await request(link.href)
  if (!response.ok) throw new Error(await response.text())
  return response.text()
}
