// HTML from the server. Only this module may convert strings to elements; the content
// security policy enforces it.

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy('inspector', { createHTML: (html) => html })
  : { createHTML: (html) => html }

// parse converts a fragment from the server to elements.
export function parse(html) {
  const template = document.createElement('template')
  template.innerHTML = policy.createHTML(html)
  localize(template.content)
  return template.content
}

// request is fetch with the header X-Fragment. If the session has ended, it redirects to the login page.
export async function request(url, options) {
  const response = await fetch(url, { ...options, headers: { 'X-Fragment': '1' } })
  if (response.status === 401) {
    location.assign('/login?to=' + encodeURIComponent(location.pathname + location.search))
  }
  return response
}

// load requests a fragment.
export async function load(url, options) {
  const response = await request(url, options)
  return { ok: response.ok, content: parse(await response.text()) }
}

const two = (n) => String(n).padStart(2, '0')

// clockTime formats a time of day in the local time zone.
export function clockTime(date, milliseconds = true) {
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
  return milliseconds ? `${text}.${String(date.getMilliseconds()).padStart(3, '0')}` : text
}

// localize converts the times of a fragment from UTC to the local time zone. Times of other
// days have a date.
export function localize(root) {
  const today = new Date().toDateString()
  for (const place of root.querySelectorAll('[data-zone]')) place.textContent = `(${zone()})`
  for (const time of root.querySelectorAll('time')) {
    const date = new Date(time.dateTime)
    if (Number.isNaN(date.getTime())) continue
    if ('date' in time.dataset) time.textContent = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clockTime(date)}`
    else if (date.toDateString() === today) time.textContent = clockTime(date)
    else time.textContent = `${date.toLocaleString('en', { month: 'short' })} ${date.getDate()} ${two(date.getHours())}:${two(date.getMinutes())}`
  }
}

// zone returns the UTC offset of the local time zone.
function zone() {
  const minutes = -new Date().getTimezoneOffset()
  if (minutes === 0) return 'UTC'
  const rest = Math.abs(minutes) % 60
  return `UTC${minutes < 0 ? '−' : '+'}${Math.floor(Math.abs(minutes) / 60)}${rest ? ':' + two(rest) : ''}`
}

// age formats an age like the server.
export function age(seconds) {
  const n = Math.max(0, Math.floor(seconds))
  if (n < 60) return `${n} s`
  if (n < 3600) return `${Math.floor(n / 60)} min`
  if (n < 86400) return `${Math.floor(n / 3600)} h`
  return `${Math.floor(n / 86400)} d`
}

const grouped = new Intl.NumberFormat('en')

export const number = (n) => grouped.format(n)

export const plural = (n, one, many) => (n === 1 ? `1 ${one}` : `${number(n)} ${many}`)
