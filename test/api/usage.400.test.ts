import { describe, expect, test } from 'vitest'
import { readError } from '../harness/event-stream.ts'
import { useCustomer, useTestApp } from '../harness/use-test-app.ts'

const gateway = useTestApp({ yaml: 'reports: { requests_per_minute: 1000 }' })
const customer = useCustomer(gateway)

const wrong = [
  '0',
  '-1',
  '366',
  '1e2',
  '1.5',
  '1.0',
  '',
  'ten',
  '%2030',
  '30%20',
  '+5',
  '0x1f',
  '007',
  'null',
  '30&days=30',
  '9'.repeat(400),
]

describe.each(['/v1/usage/tokens', '/v1/usage/breakdown', '/v1/usage/export'])('%s', path => {
  test.each(wrong)('days=%s is refused by name', async value => {
    const error = await readError(await gateway.get(customer, `${path}?days=${value}`))
    expect(error).toMatchObject({ status: 400, type: 'invalid_request_error', code: 'invalid_value', param: 'days' })
    expect(error.message).toContain('from 1 to 365')
    expect(error.message.length).toBeLessThan(200)
  })

  test('days can be 1 to 365 or missing, and unknown parameters are ignored', async () => {
    for (const query of ['', '?days=1', '?days=365', '?page=2', '?interval=day']) {
      const response = await gateway.get(customer, path + query)
      expect([query, response.status]).toEqual([query, 200])
      await response.text()
    }
  })
})

test.each(['second', 'Day', 'days', '', 'year', '1', 'day&interval=day', "day'--"])(
  'interval=%s is refused by name',
  async value => {
    const error = await readError(await gateway.get(customer, `/v1/usage/tokens?interval=${encodeURI(value)}`))
    expect(error).toMatchObject({ status: 400, code: 'invalid_value', param: 'interval' })
    expect(error.message).toContain('one of hour, day, week, month')
  },
)
