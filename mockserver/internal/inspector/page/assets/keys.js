// Single-key shortcuts. This script is synchronous and no module, so that / works before
// the modules have loaded. Users of speech input can switch the shortcuts off.

{
  const name = 'keys'
  let on = true
  try {
    on = localStorage.getItem(name) !== 'off'
  } catch { /* storage is unavailable */ }

  const actions = {
    '/': () => {
      const field = document.getElementById('q')
      field?.focus()
      field?.select()
    },
  }

  // addKeys adds shortcuts: functions by the key that calls them.
  globalThis.addKeys = (more) => Object.assign(actions, more)

  addEventListener('DOMContentLoaded', () => {
    const box = document.getElementById('use-keys')
    box.checked = on
    box.addEventListener('change', () => {
      on = box.checked
      try {
        localStorage.setItem(name, on ? 'on' : 'off')
      } catch { /* the choice applies until the page is left */ }
    })
  })

  document.addEventListener('keydown', (event) => {
    const action = actions[event.key]
    if (!action || !on || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
    if (document.querySelector('dialog[open]')) return
    if (event.target.matches('input:not([type=checkbox]), select, textarea, [contenteditable]')) return
    event.preventDefault()
    action()
  })
}
