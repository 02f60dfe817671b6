import { expect, test } from 'vitest'
import { signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp()

async function owner() {
  const { customerId } = await app.customer()
  const { browser, email } = await signedInMember(app, customerId)
  const path = `customers/${customerId}/request-sharing`
  const isOn = async () => ((await (await browser.get(path)).json()) as { is_on: boolean }).is_on
  return { customerId, browser, email, path, isOn }
}

test('no request is shared until an owner consents, and none after the owner takes it back', async () => {
  const { customerId, browser, email, path, isOn } = await owner()
  expect(await isOn()).toBe(false)
  expect(await (await browser.post(path, { consent: true })).json()).toEqual({ is_on: true })
  expect(await isOn()).toBe(true)
  // What is set already is not noted twice.
  await browser.post(path, { consent: true })
  expect(await (await browser.send('DELETE', path)).json()).toEqual({ is_on: false })
  expect(await isOn()).toBe(false)
  const { rows } = await app.database.pool.query(
    `SELECT action, detail, p.email FROM audit_entry a JOIN person p USING (person_id)
      WHERE a.customer_id = $1 AND action LIKE 'customer.%' ORDER BY entry_id`,
    [customerId],
  )
  expect(rows).toEqual([
    { action: 'customer.sharing_changed', detail: { shares_requests: true }, email },
    { action: 'customer.sharing_changed', detail: { shares_requests: false }, email },
  ])
})

test.each([
  [{}, 'missing_parameter'],
  [{ consent: false }, 'invalid_value'],
  [{ consent: 'yes' }, 'invalid_value'],
  [{ consent: true, is_on: true }, 'invalid_value'],
])('%j is no consent', async (body, code) => {
  const { browser, path, isOn } = await owner()
  expect(await readError(await browser.post(path, body))).toMatchObject({ status: 400, code })
  expect(await isOn()).toBe(false)
})

test.each(['developer', 'billing', 'viewer'] as const)(
  'a %s sees whether requests are shared, and cannot change it',
  async role => {
    const { customerId, browser, path } = await owner()
    await browser.post(path, { consent: true })
    const member = await signedInMember(app, customerId, role)
    expect(await (await member.browser.get(path)).json()).toEqual({ is_on: true })
    for (const response of [
      await member.browser.post(path, { consent: true }),
      await member.browser.send('DELETE', path),
    ]) {
      expect(await readError(response)).toMatchObject({ status: 403, code: 'role_not_allowed' })
    }
  },
)

test('operators see it, and cannot consent for a customer', async () => {
  const { customerId, browser, path } = await owner()
  const operator = await signedInOperator(app)
  const shown = async () => (await (await operator.browser.get(`operator/customers/${customerId}`)).json()) as object
  expect(await shown()).toMatchObject({ shares_requests: false })
  expect(await readError(await operator.browser.post(path, { consent: true }))).toMatchObject({
    code: 'role_not_allowed',
  })
  await browser.post(path, { consent: true })
  expect(await shown()).toMatchObject({ shares_requests: true })
})

test('another site cannot consent in the name of an owner', async () => {
  const { browser, path, isOn } = await owner()
  const foreign = await browser.send('POST', path, { consent: true }, { 'sec-fetch-site': 'cross-site' })
  expect(await readError(foreign)).toMatchObject({ status: 403, code: 'cross_site_request' })
  expect(await isOn()).toBe(false)
})
