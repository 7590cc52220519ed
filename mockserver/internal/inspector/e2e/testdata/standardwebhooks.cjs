// Reads requests with secrets as JSON, and writes which of them the library of the Standard
// Webhooks specification takes.
const { readFileSync } = require('node:fs')
const { Webhook } = require('standardwebhooks')

const checks = JSON.parse(readFileSync(0, 'utf8'))
const verified = checks.map(({ Secret, Body, Header }) => {
  const lower = Object.fromEntries(Object.entries(Header).map(([name, value]) => [name.toLowerCase(), value[0]]))
  try {
    new Webhook(Secret).verify(Body, lower)
    return true
  } catch {
    return false
  }
})
console.log(JSON.stringify(verified))
