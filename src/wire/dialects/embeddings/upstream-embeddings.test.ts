import { expect, test, vi } from 'vitest'
import type { ChatJob } from '../../../base/domain/chat-job.ts'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { upstreamEmbeddings } from './upstream-embeddings.ts'

const envelope = { id: 'chatcmpl-1', created: 1, model: 'm' }

const jobOf = (inputs: number) =>
  ({ data: { task: 'embeddings', inputs, dimensions: null, encoding: 'base64', form: 'openai' } }) as unknown as ChatJob

async function read(text: string, inputs: number) {
  const job = jobOf(inputs)
  return upstreamEmbeddings.readData!(text, job, envelope, upstreamEmbeddings.bounds(job, 1))
}

test('other work gets turns while a large answer is parsed and encoded', async () => {
  const [inputs, numbers] = [600, 1_024]
  const embedding = Array.from({ length: numbers }, (_, at) => at / 2)
  const text = JSON.stringify({ data: Array.from({ length: inputs }, (_, index) => ({ index, embedding })) })
  let turns = 0
  let isRead = false
  const countTurn = () => {
    turns++
    if (!isRead) setImmediate(countTurn)
  }
  setImmediate(countTurn)
  const parsed = vi.spyOn(JSON, 'parse')
  const { body } = await read(text, inputs)
  const longest = Math.max(...parsed.mock.calls.map(([piece]) => piece.length))
  parsed.mockRestore()
  isRead = true
  expect(turns).toBeGreaterThanOrEqual(8)
  expect(longest).toBeLessThan(text.length / 100)
  expect(JSON.parse(body).data).toHaveLength(inputs)
})

const vectors = (count: number) => Array.from({ length: count }, (_, index) => ({ index, embedding: [index, 1] }))
const padding = ' '.repeat(300_000)

test('a long answer gives the same vectors and usage as a short one', async () => {
  const text = JSON.stringify({ object: 'list', data: vectors(3), usage: { prompt_tokens: 4, total_tokens: 4 } })
  const short = await read(text, 3)
  expect(short.usage).toMatchObject({ prompt_tokens: 4 })
  for (const at of [',{', ']}', '}]']) {
    expect(await read(text.replace(at, `${at[0]}${padding.slice(1e5)}${at.slice(1)}`), 3)).toEqual(short)
  }
  expect(
    await read(text.replace('"data"', `"data" :\n`).replace('::', ':').replace(':\n:', ':\n') + padding.slice(1e5), 3),
  ).toEqual(short)
})

test.each([
  ['no list', `{"data":7${padding}}`],
  ['a list at another place', `{"more":{"data":[{"embedding":[1]}]}${padding}}`],
  ['two lists', `{"data":[{"embedding":[1]}],"data":[{"embedding":[2]}]${padding}}`],
  ['fewer vectors', `{"data":[]${padding}}`],
  ['more vectors', `{"data":[{"embedding":[1]},{"embedding":[1]}${padding}]}`],
  ['an item of two objects', `{"data":[{"embedding":[1]}{}${padding}]}`],
  ['a comma too many', `{"data":[{"embedding":[1]},${padding}]}`],
  ['brackets of different kinds', `{"data":[{"embedding":[1}]${padding}]}`],
  ['no end', `{"data":[{"embedding":[1]}${padding}`],
  ['a string without end', `{"data":[{"embedding":"${padding}`],
  ['a long item', `{"data":[{"embedding":[1],"more":"${padding.repeat(8)}"}]}`],
  ['much besides the vectors', `{"data":[{"embedding":[1]}],"more":"${padding}"}`],
  ['deep lists', `{"data":[${'['.repeat(100)}${padding}`],
  ['more values than asked for', `{"data":[{"embedding":[1]}]${',1'.repeat(200_000)}}`],
])('a long answer with %s is malformed', async (_name, text) => {
  const failure = await read(text, 1).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(UpstreamFailure)
  expect(failure).toMatchObject({ outcome: 'malformed' })
})
