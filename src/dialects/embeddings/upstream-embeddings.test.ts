import { expect, test } from 'vitest'
import type { ChatJob } from '../../domain/chat-job.ts'
import { upstreamEmbeddings } from './upstream-embeddings.ts'

const envelope = { id: 'chatcmpl-1', created: 1, model: 'm' }

test('other work gets turns while a large answer is encoded', async () => {
  const [inputs, numbers] = [600, 1_024]
  const embedding = Array.from({ length: numbers }, (_, at) => at / 2)
  const text = JSON.stringify({ data: Array.from({ length: inputs }, (_, index) => ({ index, embedding })) })
  const job = { data: { task: 'embeddings', inputs, dimensions: null, encoding: 'base64' } } as unknown as ChatJob
  let turns = 0
  let isRead = false
  const countTurn = () => {
    turns++
    if (!isRead) setImmediate(countTurn)
  }
  setImmediate(countTurn)
  const { body } = await upstreamEmbeddings.readData!(text, job, envelope, upstreamEmbeddings.bounds(job, 1))
  isRead = true
  expect(turns).toBeGreaterThanOrEqual(4)
  expect(JSON.parse(body).data).toHaveLength(inputs)
})
