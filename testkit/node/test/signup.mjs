// The program under test.
export async function signUp(userId, plan, endpoint, writeKey = 'web') {
  const call = { writeKey, userId, event: 'Signed Up', properties: { plan } }
  await fetch(`${endpoint}/v1/track`, { method: 'POST', body: JSON.stringify(call) })
}
