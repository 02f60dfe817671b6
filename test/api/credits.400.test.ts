import { expect, test } from 'vitest'
import { readError } from '../harness/event-stream.ts'
import { useCustomer, useTestApp } from '../harness/use-test-app.ts'

const gateway = useTestApp({ yaml: 'reports: { requests_per_minute: 1000 }' })
const customer = useCustomer(gateway)

test.each(['0', '-1', '101', '1e2', '1.5', '', 'ten', '%205', '+5', '007', '5&limit=5', '9'.repeat(400)])(
  'limit=%s is refused by name',
  async value => {
    const error = await readError(await gateway.get(customer, `/v1/credits/transactions?limit=${value}`))
    expect(error).toMatchObject({ status: 400, type: 'invalid_request_error', code: 'invalid_value', param: 'limit' })
    expect(error.message).toContain('from 1 to 100')
    expect(error.message.length).toBeLessThan(200)
  },
)

const encoded = (text: string) => Buffer.from(text).toString('base64url')

test.each([
  '',
  'null',
  'abc',
  encoded('20778'),
  encoded('-1.5'),
  encoded('1.5; DROP TABLE refund'),
  encoded(`${'9'.repeat(7)}.1`),
  encoded(`1.${'9'.repeat(19)}`),
  `${encoded('20778.7')}==`,
  `${encoded('20778.7')}!`,
  `${encoded('20778.7')}&cursor=${encoded('20778.7')}`,
  'x'.repeat(4_000),
])('cursor=%s is refused by name', async value => {
  const error = await readError(await gateway.get(customer, `/v1/credits/transactions?cursor=${value}`))
  expect(error).toMatchObject({ status: 400, type: 'invalid_request_error', code: 'invalid_value', param: 'cursor' })
  expect(error.message).toContain('next_cursor')
  expect(error.message.length).toBeLessThan(200)
})

test('every position in the list is accepted, and unknown parameters are ignored', async () => {
  for (const query of [
    '',
    '?limit=100',
    '?limit=1&page=2',
    `?cursor=${encoded('0.0')}`,
    `?cursor=${encoded('999999.999999999999999999')}`,
  ]) {
    const response = await gateway.get(customer, `/v1/credits/transactions${query}`)
    expect([query, response.status]).toEqual([query, 200])
    await response.text()
  }
})
