import { expect, test } from 'vitest'
import { alertKinds } from '../../src/base/domain/alert-rule.ts'
import { mintWebhookSecret, signWebhook } from '../../src/money/alerts/post-webhook.ts'
import { readPage, tableRows } from './page.ts'

const page = readPage('docs/alerts.md')

test('docs/alerts.md lists exactly the kinds of alerts', () => {
  expect(tableRows(page, 'kind').map(([kind]) => kind)).toEqual(alertKinds)
  expect(tableRows(page, 'type').map(([type]) => type)).toEqual([...alertKinds, 'test'].map(kind => `alert.${kind}`))
})

test('the snippet accepts only webhooks that we signed', async () => {
  const [, snippet] = /```js\n([\s\S]+?)```/.exec(page)!
  const { verify } = (await import(`data:text/javascript,${encodeURIComponent(snippet!)}`)) as {
    verify(secret: string, headers: object, body: string): unknown
  }
  const secret = mintWebhookSecret()
  const body = '{"type":"alert.test","data":{"message":"schön"}}'
  const headers = signWebhook(secret, { id: 'a', epochMs: Date.now(), body })
  expect(verify(secret, headers, body)).toMatchObject({ type: 'alert.test' })
  expect(() => verify(mintWebhookSecret(), headers, body)).toThrow('not signed')
  expect(() => verify(secret, { ...headers, 'webhook-id': 'b' }, body)).toThrow('not signed')
  expect(() => verify(secret, headers, body.replace('test', 'low_balance'))).toThrow('not signed')
  const old = signWebhook(secret, { id: 'a', epochMs: Date.now() - 600_000, body })
  expect(() => verify(secret, old, body)).toThrow('too old')
})
