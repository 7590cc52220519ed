// Keys of one letter, which can be switched off: speech and chance would type them too.

const box = document.getElementById('use-keys')
const name = 'keys'

function remembered() {
  try {
    return localStorage.getItem(name) !== 'off'
  } catch {
    return true // there is no storage
  }
}

// start has each key call its action, unless something is being typed.
export function start(actions) {
  box.checked = remembered()
  box.addEventListener('change', () => {
    try {
      localStorage.setItem(name, box.checked ? 'on' : 'off')
    } catch { /* it holds until the page is left */ }
  })
  document.addEventListener('keydown', (event) => {
    const action = actions[event.key]
    if (!action || !box.checked || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
    if (event.target.matches('input:not([type=checkbox]), select, textarea, [contenteditable]')) return
    event.preventDefault()
    action()
  })
}
