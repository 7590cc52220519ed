// Single-key shortcuts. This script is synchronous and not a module: no key may be lost while the
// modules load. Users of speech input can disable the shortcuts.

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
    '?': () => document.getElementById('help').togglePopover(),
    j: null, // see addKeys
    k: null,
  }

  // Deliberate keys are ignored as part of typed text: no other letter may be typed within the
  // pause before and after the key.
  const deliberate = { r: null, c: null }
  const pause = 300 // milliseconds
  let typed = -pause
  let waiting = 0 // timer of the delayed action

  // addKeys sets the functions of keys, and runs those of keys that were pressed before, unless
  // the user has continued elsewhere.
  let early = []
  globalThis.addKeys = (more) => {
    for (const key in more) (key in actions ? actions : deliberate)[key] = more[key]
    const pressed = early.splice(0)
    if (!document.activeElement.matches(fields)) pressed.forEach(run)
  }
  const run = (key) => {
    const action = actions[key] ?? deliberate[key]
    if (!action) return early.push(key)
    early = []
    action()
  }

  const fields = 'input:not([type=checkbox]), select, textarea, [contenteditable]'
  const applies = (event) => on && !event.ctrlKey && !event.metaKey && !event.altKey && !event.isComposing &&
    !document.querySelector('dialog[open]') &&
    !event.target.matches(fields)

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
    early = early.filter((key) => key in actions) // another key cancels a deliberate one
    if (event.key in actions) {
      if (!applies(event)) return
      event.preventDefault()
      return run(event.key)
    }
    const quick = event.timeStamp - typed < pause
    if (event.key.length === 1) typed = event.timeStamp
    if (!(event.key in deliberate) || quick || event.repeat || !applies(event)) return
    event.preventDefault()
    waiting = setTimeout(() => { if (!document.querySelector('dialog[open]')) run(event.key) }, pause)
  })
}
