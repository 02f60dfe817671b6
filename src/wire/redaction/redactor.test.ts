import { afterAll, expect, test } from 'vitest'
import { Redactor } from './redactor.ts'

const redactor = new Redactor()
afterAll(() => redactor.close())

const text = (given: string) => ({ text: given, length: given.length })

test('one request that fails is lost alone', async () => {
  const broken = { text: { length: 1 } as unknown as string, length: 1 }
  const answers = await Promise.all([
    redactor.redact([text('to ada@example.com')], 'a'),
    redactor.redact([broken], 'b'),
    redactor.redact([text('to bob@example.com')], 'a'),
    redactor.redact([text('Hi'), text('')], 'c'),
  ])
  expect(answers).toEqual([
    { texts: ['to [EMAIL]'], redactions: 1 },
    null,
    { texts: ['to [EMAIL]'], redactions: 1 },
    { texts: ['Hi', ''], redactions: 0 },
  ])
})

test('the requests of one customer leave room for the others', async () => {
  const requests = Array.from({ length: 600 }, () => redactor.redact([text('')], 'many'))
  const other = redactor.redact([text('Hi')], 'other')
  expect(await Promise.all(requests)).toContain(null)
  expect(await other).toEqual({ texts: ['Hi'], redactions: 0 })
  expect(await redactor.redact([text('Hi')], 'many')).not.toBeNull()
})

test('a closed one redacts nothing', async () => {
  const closing = new Redactor()
  const waiting = [closing.redact([text('a')], 'a'), closing.redact([text('b')], 'a')]
  await closing.close()
  expect(await Promise.all(waiting)).toEqual([null, null])
  expect(await closing.redact([text('c')], 'a')).toBeNull()
})
