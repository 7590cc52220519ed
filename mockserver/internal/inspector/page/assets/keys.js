// Single-key shortcuts. This script is synchronous and not a module: / must work before the
// modules have loaded. Users of speech input can disable the shortcuts.

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

  // addKeys adds shortcuts: functions by key.
  globalThis.addKeys = (more) => Object.assign(actions, more)

  // addDeliberateKeys adds shortcuts that are ignored as part of typed text: no other letter
  // may be typed within the pause before and after the key.
  const deliberate = {}
  globalThis.addDeliberateKeys = (more) => Object.assign(deliberate, more)
  const pause = 300 // milliseconds
  let typed = -pause
  let waiting = 0 // timer of the delayed action

  const applies = (event) => on && !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing &&
    !document.querySelector('dialog[open]') &&
    !event.target.matches('input:not([type=checkbox]), select, textarea, [contenteditable]')

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
    clearTimeout(waiting)
    const action = actions[event.key]
    if (action) {
      if (!applies(event)) return
      event.preventDefault()
      return action()
    }
    const quick = event.timeStamp - typed < pause
    if (event.key.length === 1) typed = event.timeStamp
    if (!deliberate[event.key] || quick || event.repeat || !applies(event)) return
    event.preventDefault()
    waiting = setTimeout(() => { if (!document.querySelector('dialog[open]')) deliberate[event.key]() }, pause)
  })
}
