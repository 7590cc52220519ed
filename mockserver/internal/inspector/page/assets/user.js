// The user timeline: notification of new calls, and selection of two calls to compare. The
// page works without it.

import { load } from './html.js'

const fresh = document.getElementById('fresh')
if (fresh) {
  setInterval(async () => {
    if (document.hidden) return
    const address = new URL(location.href)
    address.searchParams.set('since', fresh.dataset.since)
    try {
      const { ok, content } = await load(address)
      if (ok && content.textContent.trim() !== fresh.textContent.trim()) fresh.replaceChildren(content)
    } catch { /* retried in two seconds */ }
  }, 2000)
}

const timeline = document.getElementById('timeline')
if (timeline) {
  const button = timeline.querySelector('.compare-bar button')
  const picked = []
  const show = () => {
    button.disabled = picked.length < 2
    button.textContent = ['Select two calls to compare', 'Select another call to compare', 'Compare selected calls'][picked.length]
  }
  const pick = (box) => {
    if (box.checked) picked.push(box)
    else picked.splice(picked.indexOf(box), 1)
    if (picked.length > 2) picked.shift().checked = false // deselects the oldest
  }
  timeline.addEventListener('change', (event) => {
    if (event.target.name !== 'call') return
    pick(event.target)
    show()
  })
  for (const box of timeline.querySelectorAll('[name=call]:checked')) pick(box) // selection restored by Back
  show()
}
