// Sends one call of each type with a client library, unchanged and configured as
// its documentation says, and prints a line once the library says that all were
// taken. Usage: node send.js LIBRARY URL WRITE_KEY
'use strict'

const [library, url, writeKey] = process.argv.slice(2)

const properties = { plan: 'Pro', 'first name': 'Ada', price: 19.99, tags: ['a', 'b'], nothing: null, note: 'ünïcødé \u2028 <&>' }
const timestamp = new Date('2026-01-31T12:34:56.789Z')

// calls are the arguments that all libraries for servers take.
const calls = [
  ['identify', { userId: 'u1', traits: { email: 'ada@example.com', age: 36 } }],
  ['track', { userId: 'u1', event: 'Order Completed', properties, timestamp, context: { ip: '203.0.113.7' }, integrations: { All: true } }],
  ['page', { userId: 'u1', category: 'Shop', name: 'Cart', properties: { url: 'https://shop.example/cart' } }],
  ['screen', { anonymousId: 'a1', name: 'Home', properties: { tab: 1 } }],
  ['group', { userId: 'u1', groupId: 'g1', traits: { name: 'Acme' } }],
  ['alias', { userId: 'u1', previousId: 'a1' }]
]

const fail = error => {
  console.error(error)
  process.exit(1)
}

const libraries = {
  // The service's library for Node, in its current form.
  async 'analytics-node-next' () {
    const { Analytics } = require('@segment/analytics-node')
    const client = new Analytics({ writeKey, host: url, maxRetries: 0, flushAt: 4 })
    client.on('error', fail)
    for (const [type, call] of calls) client[type](call)
    await client.closeAndFlush()
  },

  // Its predecessor, which sends its first call by itself.
  async 'analytics-node' () {
    const Analytics = require('analytics-node')
    const client = new Analytics(writeKey, { host: url, retryCount: 0, errorHandler: fail })
    await Promise.all(calls.map(([type, call]) => new Promise((resolve, reject) => {
      client[type](call, error => error ? reject(error) : resolve())
      client.flush().catch(reject)
    })))
  },

  // A compatible one, which packs its batches.
  async rudder () {
    const Analytics = require('@rudderstack/rudder-sdk-node')
    const client = new Analytics(writeKey, { dataPlaneUrl: url, flushAt: 100, retryCount: 0, errorHandler: fail, logLevel: 'error' })
    const taken = calls.map(([type, call]) => new Promise((resolve, reject) => {
      client[type](call, error => error ? reject(error) : resolve())
    }))
    await client.flush()
    await Promise.all(taken)
  },

  // The service's library for browsers, in a page: it asks for its settings, and
  // learns from them where to send.
  async browser () {
    await page({})
  },

  async 'browser-batching' () {
    await page({ strategy: 'batching', config: { size: 6, timeout: 60_000 } })
  }
}

async function page (deliveryStrategy) {
  const { JSDOM } = require('jsdom')
  const { window } = new JSDOM('<!doctype html><title>Cart</title><p>', { url: 'https://shop.example/cart?utm_campaign=spring', referrer: 'https://search.example/' })
  for (const name of ['window', 'document', 'localStorage', 'location', 'self']) {
    Object.defineProperty(globalThis, name, { value: name === 'window' || name === 'self' ? window : window[name], configurable: true })
  }
  Object.defineProperty(globalThis, 'navigator', { value: window.navigator, configurable: true })
  // A page's origin goes with its requests; Node's fetch sends none by itself.
  const { fetch } = globalThis
  let batchTaken
  const batch = new Promise(resolve => { batchTaken = resolve })
  window.fetch = globalThis.fetch = async (address, options = {}) => {
    const headers = { ...options.headers, Origin: window.location.origin }
    const response = await fetch(address, { ...options, headers })
    if (response.headers.get('Access-Control-Allow-Origin') !== window.location.origin) throw new Error('refused by CORS: ' + address)
    if (address.endsWith('/b')) batchTaken()
    return response
  }

  const { AnalyticsBrowser } = require('@segment/analytics-next')
  const analytics = AnalyticsBrowser.load({ writeKey, cdnURL: url }, { integrations: { 'Segment.io': { deliveryStrategy } } })
  analytics.on('error', fail)
  await analytics.ready()
  await analytics.identify('u1', { email: 'ada@example.com', age: 36 })
  await analytics.track('Order Completed', properties)
  await analytics.page('Shop', 'Cart')
  await analytics.screen('Home', { tab: 1 })
  await analytics.group('g1', { name: 'Acme' })
  await analytics.alias('u1', 'a1')
  if (deliveryStrategy.strategy) await batch
}

libraries[library]().then(() => {
  console.log('taken')
  process.exit(0)
}, fail)
