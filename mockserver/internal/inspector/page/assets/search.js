// The search field with suggestions (ARIA combobox). The server parses searches and provides
// suggestions.

import { load } from './html.js'

const field = document.getElementById('q')
const list = document.getElementById('suggestions')

let typing = null
let asking = null
let look = null // runs a search

// start initializes the field. search receives the text and whether the user is typing.
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
  field.addEventListener('click', hide) // the click moves the cursor
  field.addEventListener('search', () => { if (field.value === '') send() }) // the clear button
  list.addEventListener('pointerdown', (event) => {
    event.preventDefault() // keeps the focus in the field
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

// isOpen reports whether suggestions are shown.
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
  } catch { /* superseded, or the connection is lost, which the stream reports */ }
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

// activate selects a suggestion and stops loading others.
function activate(option) {
  asking?.abort()
  active()?.setAttribute('aria-selected', 'false')
  field.removeAttribute('aria-activedescendant')
  if (!option) return
  option.setAttribute('aria-selected', 'true')
  option.scrollIntoView({ block: 'nearest' })
  field.setAttribute('aria-activedescendant', option.id)
}

// accept replaces the text before the cursor with a suggestion.
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
    case 'ArrowLeft':
    case 'ArrowRight':
    case 'Home':
    case 'End':
      hide() // the suggestions complete the text before the cursor
      return
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
