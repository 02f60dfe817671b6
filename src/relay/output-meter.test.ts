import { expect, test, vi } from 'vitest'
import { OutputMeter } from './output-meter.ts'

test('is over the limit once the text clearly holds more tokens, however they came', () => {
  const inPieces = new OutputMeter(20)
  for (let piece = 0; piece < 20; piece++) inPieces.addText('word ')
  expect(inPieces.isOverLimit()).toBe(false)
  for (let piece = 0; piece < 100; piece++) inPieces.addText('word ')
  expect(inPieces.isOverLimit()).toBe(true)
  const atOnce = new OutputMeter(20)
  atOnce.add({ content: 'word '.repeat(120) })
  expect(atOnce.isOverLimit()).toBe(true)
})

test('a quarter more is not clearly over: tokenizers differ', () => {
  const meter = new OutputMeter(100)
  for (let piece = 0; piece < 120; piece++) meter.addText('word ')
  expect(meter.isOverLimit()).toBe(false)
  for (let piece = 0; piece < 40; piece++) meter.addText('word ')
  expect(meter.isOverLimit()).toBe(true)
})

test('many short pieces are not over it', () => {
  const meter = new OutputMeter(200)
  for (let piece = 0; piece < 400; piece++) meter.addText('a')
  expect(meter.isOverLimit()).toBe(false)
})

test('counts no more of a long text than it takes to know', () => {
  const meter = new OutputMeter(5)
  meter.addText('qxzj'.repeat(50_000))
  const slices = vi.spyOn(meter.text, 'slice')
  expect(meter.isOverLimit()).toBe(true)
  expect(slices).toHaveBeenCalledOnce()
})
