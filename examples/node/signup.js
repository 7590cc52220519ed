// The program under test: it records a sign-up.

/** Sends one call. Throws if the collector refuses the request. */
export async function track(endpoint, writeKey, call) {
  const response = await fetch(`${endpoint}/v1/track`, {
    method: 'POST',
    headers: {
      Authorization: `Basic ${Buffer.from(`${writeKey}:`).toString('base64')}`,
      'Content-Type': 'application/json',
    },
    body: JSON.stringify(call),
  })
  if (!response.ok) throw new Error(`the collector responded with ${response.status}: ${await response.text()}`)
}

export async function signUp(userId, plan, endpoint = process.env.ANALYTICS_ENDPOINT) {
  await track(endpoint, 'web', { userId, event: 'Signed Up', properties: { plan } })
}
