import { expect, test } from 'vitest'
import type { Attempt } from '../../src/base/domain/handoff.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// What a hoster does against the protocol is noted with the request, and lowers its conformance: score-hosters.test.ts.

const upstream = useUpstream()
const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })

test.each([false, true])('an answer that is too long or names another model is noted; streamed: %s', async stream => {
  const model = `sold-${stream}`
  const customer = await app.customer()
  await app.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: model }] })
  let seen = 0
  const breaches = async (behaviour: Parameters<typeof answer>[0], maxTokens = 50) => {
    upstream.always(answer(behaviour))
    const before = (await app.usage(customer)).length
    const messages = [{ role: 'user', content: 'How far is it?' }]
    const response = await app.chat(customer, { model, messages, stream, max_tokens: maxTokens })
    expect(response.status).toBe(200)
    const sent = await response.text()
    // The customer sees the model that it asked for, and nothing of the notes.
    expect(sent).not.toMatch(/answeredModel|another-model|breaches/)
    const rows = await app.settled(customer, before + 1)
    const noted = rows.flatMap(({ attempts }) => attempts as readonly Attempt[]).map(({ breaches = [] }) => breaches)
    const added = noted.flat().slice(seen)
    seen += added.length
    return added
  }
  expect(await breaches({ text: 'Ten minutes.', usage: usageOf(8, 4) })).toEqual([])
  expect(await breaches({ text: 'Ten minutes.', usage: usageOf(8, 4), model: `Owner/${model}.gguf` })).toEqual([])
  expect(await breaches({ text: 'Ten minutes.', usage: usageOf(8, 4), model: 'another-model' })).toEqual(['model_id'])
  const long = 'It is ten minutes on foot. '.repeat(40)
  expect(await breaches({ text: long, usage: usageOf(8, 300) }, 20)).toEqual(['max_tokens'])
})
