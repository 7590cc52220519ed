// The search field, with ways to go on: a combobox, as the pattern of ARIA has it. The
// server knows what can be searched for, and reads what was written.

import { load } from './html.js'

const field = document.getElementById('q')
const list = document.getElementById('suggestions')

let typing = null
let asking = null
let look = null // what searches

// start has look called with what is written, and whether it is still being written.
export function start(search) {
  look = search
  field.setAttribute('role', 'combobox')
  field.setAttribute('aria-autocomplete', 'list')
  field.setAttribute('aria-controls', list.id)
  field.setAttribute('aria-expanded', 'false')
  field.form.addEventListener('submit', (event) => {
    event.preventDefault()
    send()
  })
  field.addEventListener('input', typed)
  field.addEventListener('keydown', onKey)
  field.addEventListener('blur', hide)
  field.addEventListener('search', () => { if (field.value === '') send() }) // its cross
  list.addEventListener('pointerdown', (event) => {
    event.preventDefault() // the focus stays in the field
    const option = event.target.closest('[role=option]')
    if (option) accept(option)
  })
  if (field.value !== field.defaultValue) typed() // text entered while the scripts loaded
}

export function set(text) {
  clearTimeout(typing)
  hide()
  field.value = text
}

export function focus() {
  field.focus()
  field.select()
}

// isOpen reports whether ways to go on are shown.
export const isOpen = () => !list.hidden

function send() {
  clearTimeout(typing)
  hide()
  look(field.value, false)
}

function typed() {
  clearTimeout(typing)
  typing = setTimeout(() => look(field.value, true), 250)
  suggest()
}

async function suggest() {
  asking?.abort()
  const mine = asking = new AbortController()
  const before = field.value.slice(0, field.selectionStart)
  list.setAttribute('aria-busy', 'true')
  try {
    const { ok, content } = await load('/suggest?' + new URLSearchParams({ q: before }), { signal: mine.signal })
    if (mine !== asking) return
    if (ok && document.activeElement === field) {
      list.replaceChildren(content)
      show(list.children.length > 0)
    }
  } catch { /* a later question has taken over, or the server is gone, which the stream tells */ }
  if (mine === asking) list.setAttribute('aria-busy', 'false')
}

function show(on) {
  list.hidden = !on
  field.setAttribute('aria-expanded', String(on))
  field.removeAttribute('aria-activedescendant')
}

function hide() {
  asking?.abort()
  show(false)
}

const active = () => list.querySelector('[aria-selected="true"]')

// activate chooses a way to go on, among those that are shown: no others come meanwhile.
function activate(option) {
  asking?.abort()
  active()?.setAttribute('aria-selected', 'false')
  field.removeAttribute('aria-activedescendant')
  if (!option) return
  option.setAttribute('aria-selected', 'true')
  option.scrollIntoView({ block: 'nearest' })
  field.setAttribute('aria-activedescendant', option.id)
}

// accept puts a way to go on into the field, up to the cursor.
function accept(option) {
  const text = option.dataset.text
  field.value = text + field.value.slice(field.selectionStart).trimStart()
  field.setSelectionRange(text.length, text.length)
  if (text.endsWith(' ')) send()
  else typed()
}

function onKey(event) {
  if (event.isComposing) return
  const options = [...list.children]
  switch (event.key) {
    case 'ArrowDown':
    case 'ArrowUp': {
      event.preventDefault()
      if (list.hidden) return suggest()
      const step = event.key === 'ArrowDown' ? 1 : -1
      const at = options.indexOf(active())
      activate(options[at === -1 && step < 0 ? options.length - 1 : at + step])
      return
    }
    case 'Enter':
      if (!list.hidden && active()) {
        event.preventDefault()
        accept(active())
      }
      return
    case 'Escape':
      if (list.hidden) return
      event.preventDefault()
      event.stopPropagation()
      hide()
  }
}
