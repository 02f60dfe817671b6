import { expect, it } from 'vitest'
import { BackOff } from './back-off.ts'
import { Slots } from './slots.ts'
import { AnswerMeter, TokenRate } from './token-rate.ts'

it('places are limited altogether and for each model, and given back once', () => {
  let changes = 0
  const slots = new Slots(3, 2, () => changes++)
  const [a, b] = [slots.take('a'), slots.take('a')]
  expect(slots.take('a')).toBeNull()
  const c = slots.take('b')
  expect(slots.take('b')).toBeNull()
  expect([slots.free, changes]).toEqual([0, 3])
  a!()
  a!()
  b!()
  c!()
  expect([slots.free, slots.running]).toEqual([3, 0])
})

it('the tokens of the last minute are limited', () => {
  let nowMs = 0
  const rate = new TokenRate(100, () => nowMs)
  rate.add(60)
  nowMs = 30_000
  rate.add(60)
  expect(rate.isUsedUp).toBe(true)
  nowMs = 65_000
  expect(rate.isUsedUp).toBe(false)
  expect(new TokenRate(null, () => 0).isUsedUp).toBe(false)
})

it('tokens are those that the answer reports last, or else a part of its length', () => {
  const meter = new AnswerMeter()
  meter.add(Buffer.from('data: {"usage":{"total_tokens":3}}\n\n'))
  meter.add(Buffer.from('data: {"usage":{"prompt_tokens":2,"total_to'))
  meter.add(Buffer.from('kens": 17}}\n\ndata: [DONE]\n\n'))
  expect(meter.tokens(1_000)).toBe(17)
  const silent = new AnswerMeter()
  silent.add(Buffer.alloc(400))
  expect(silent.tokens(400)).toBe(200)
})

it('delays double up to the limit, with jitter of a half', () => {
  const low = new BackOff(250, 1_000, () => 0)
  expect([low.nextMs(), low.nextMs(), low.nextMs(), low.nextMs()]).toEqual([125, 250, 500, 500])
  low.reset()
  expect(low.nextMs()).toBe(125)
  expect(new BackOff(250, 1_000, () => 1).nextMs()).toBe(250)
  const steady = new BackOff(250, 1_000, () => 0, 3)
  expect([steady.nextMs(), steady.nextMs(), steady.nextMs(), steady.nextMs()]).toEqual([125, 125, 125, 250])
})
