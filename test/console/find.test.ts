import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Found } from '../../src/wire/api/operator/find.ts'
import { signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { useDemoApp } from '../harness/use-demo-app.ts'

const app = useDemoApp()

test('an operator finds customers, keys, models and requests; others find nothing', async () => {
  const name = `laptop-${randomUUID().slice(0, 8)}`
  const customer = await app.customer({ key: { name } })
  await app.chat(customer, { model: 'demo', max_tokens: 5, messages: [{ role: 'user', content: 'Hello!' }] })
  const [usage] = await app.settled(customer, 1)
  const { browser } = await signedInOperator(app)
  const find = async (q: string) => {
    const response = await browser.get(`operator/find?q=${encodeURIComponent(q)}`)
    expect(response.status).toBe(200)
    return (await response.json()) as Found
  }
  const { keys } = await find(name)
  expect(keys).toMatchObject([{ name, customer_id: customer.customerId, state: 'active' }])
  const expires = (at: string) =>
    app.database.pool.query(`UPDATE api_key SET expires_at = ${at}, paused_at = now() WHERE key_id = $1`, [keys[0]!.id])
  await expires("now() + interval '1 day'")
  expect((await find(name)).keys).toMatchObject([{ state: 'paused' }])
  await expires('now()')
  expect((await find(name)).keys).toMatchObject([{ state: 'expired' }])
  const email = keys[0]!.customer_email
  expect((await find(email.toUpperCase())).customers).toMatchObject([{ id: customer.customerId, state: 'active' }])
  expect((await find(customer.customerId)).customers).toHaveLength(1)
  expect((await find('dem')).models).toEqual(['demo'])
  expect((await find(usage!.request_id)).requests).toEqual([
    { id: usage!.request_id, customer_id: customer.customerId },
  ])
  // Signs of patterns are plain characters.
  expect((await find('%')).customers).toEqual([])
  expect((await browser.get('operator/find?q=')).status).toBe(400)
  const member = await signedInMember(app, customer.customerId)
  expect((await member.browser.get('operator/find?q=demo')).status).toBe(403)
})
