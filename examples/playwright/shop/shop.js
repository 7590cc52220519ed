// The page under test: it records sign-ups with Segment's library for browsers. The library loads
// its settings from the collector, and these contain the address for calls.
const collector = document.querySelector('meta[name=collector]').content
const analytics = AnalyticsNext.AnalyticsBrowser.load({ writeKey: 'shop', cdnURL: collector })

analytics.page('Shop')

document.querySelector('form').addEventListener('submit', async (event) => {
  event.preventDefault()
  const { userId, plan } = Object.fromEntries(new FormData(event.target))
  analytics.identify(userId, { plan })
  analytics.track('Signed Up', { plan })
  document.querySelector('[role=status]').textContent = `Welcome, ${userId}`
})
