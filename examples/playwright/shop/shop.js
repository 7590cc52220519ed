// The page that is tested: it tracks who signs up, by the service's library for browsers. The
// library asks the collector for its settings, and they say where to send calls.
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
