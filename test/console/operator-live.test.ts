import { expect, test } from 'vitest'
import type { Overview } from '../../src/wire/api/operator/overview.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp({ timeouts: { overviewIntervalMs: 20 } })

/** Reads the events of the stream one after the other. */
async function* events(browser: BrowserClient): AsyncGenerator<{ event: string; data: Overview & { reason: string } }> {
  const response = await browser.get('operator/live')
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const match = /^event: (\w+)\ndata: (.+)$/.exec(text.slice(0, end))
      text = text.slice(end + 2)
      if (match !== null) yield { event: match[1]!, data: JSON.parse(match[2]!) }
    }
  }
}

test('a change appears without a reload, and the stream ends with the session', async () => {
  const { browser, personId } = await signedInOperator(app)
  const { browser: other } = await signedInOperator(app)
  const stream = events(browser)
  const first = await stream.next()
  expect(first.value).toMatchObject({ event: 'overview', data: { customer_credit_usd: expect.any(Number) } })
  const before = first.value!.data.customer_credit_usd
  await app.customer({ creditNanos: 7_000_000_000n })
  for (;;) {
    const { value } = await stream.next()
    if (value!.data.customer_credit_usd === before + 7) break
  }
  await app.database.pool.query('DELETE FROM person_session WHERE person_id = $1', [personId])
  for (;;) {
    const { value } = await stream.next()
    if (value!.event !== 'end') continue
    expect(value!.data).toEqual({ reason: 'session_ended' })
    break
  }
  expect((await stream.next()).done).toBe(true)
  expect((await other.get('operator/overview')).status).toBe(200)
})

test('an operator who loses the role loses the stream; members never have it', async () => {
  const { customerId } = await app.customer()
  const { browser: member } = await signedInMember(app, customerId)
  expect(await readError(await member.get('operator/live'))).toMatchObject({ code: 'role_not_allowed' })
  const { browser, personId } = await signedInOperator(app)
  const stream = events(browser)
  expect((await stream.next()).value).toMatchObject({ event: 'overview' })
  await app.database.pool.query('UPDATE person SET installation_role = NULL WHERE person_id = $1', [personId])
  for (;;) {
    const { value, done } = await stream.next()
    expect(done).toBe(false)
    if (value!.event === 'end') break
  }
})
