import { expect, test, vi } from 'vitest'
import { uncounted } from '../runtime/byte-budget.ts'
import { OutputMeter } from './output-meter.ts'

test('is over the limit once the text clearly has more tokens, in any number of pieces', () => {
  const inPieces = new OutputMeter(20, uncounted)
  for (let piece = 0; piece < 20; piece++) inPieces.addText('word ')
  expect(inPieces.isOverLimit()).toBe(false)
  for (let piece = 0; piece < 100; piece++) inPieces.addText('word ')
  expect(inPieces.isOverLimit()).toBe(true)
  const inOnePiece = new OutputMeter(20, uncounted)
  inOnePiece.add({ content: 'word '.repeat(120) })
  expect(inOnePiece.isOverLimit()).toBe(true)
})

test('a quarter more is not over the limit, because tokenizers differ', () => {
  const meter = new OutputMeter(100, uncounted)
  for (let piece = 0; piece < 120; piece++) meter.addText('word ')
  expect(meter.isOverLimit()).toBe(false)
  for (let piece = 0; piece < 40; piece++) meter.addText('word ')
  expect(meter.isOverLimit()).toBe(true)
})

test('many short pieces are not over the limit', () => {
  const meter = new OutputMeter(200, uncounted)
  for (let piece = 0; piece < 400; piece++) meter.addText('a')
  expect(meter.isOverLimit()).toBe(false)
})

test('stops counting a long text once the result is certain', () => {
  const meter = new OutputMeter(5, uncounted)
  meter.addText('qxzj'.repeat(50_000))
  const slices = vi.spyOn(meter.text, 'slice')
  expect(meter.isOverLimit()).toBe(true)
  expect(slices).toHaveBeenCalledOnce()
})

test('counts a huge piece over several calls', () => {
  const meter = new OutputMeter(50_000, uncounted)
  meter.addText(' '.repeat(1_000_000))
  const slices = vi.spyOn(meter.text, 'slice')
  expect(meter.isOverLimit()).toBe(false)
  expect(slices).toHaveBeenCalledTimes(128)
})
