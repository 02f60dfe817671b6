import { expect, test, vi } from 'vitest'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { countTokens } from '../../wire/tokens/count-tokens.ts'
import { OutputMeter } from './metered-stream.ts'

function meterFor(tokensMax: number): OutputMeter {
  const meter = new OutputMeter(tokensMax, uncounted)
  meter.beginCounting()
  return meter
}

test('is over the limit once the text clearly has more tokens, in any number of pieces', () => {
  const inPieces = meterFor(20)
  for (let piece = 0; piece < 20; piece++) inPieces.addText('word ')
  expect(inPieces.limitPosition()).toBeNull()
  for (let piece = 0; piece < 100; piece++) inPieces.addText('word ')
  expect(inPieces.limitPosition()).toBe(33 * 5 - 1)
  const inOnePiece = meterFor(20)
  inOnePiece.add({ content: 'word '.repeat(120) })
  expect(inOnePiece.limitPosition()).toBe(33 * 5 - 1)
})

test.each([1, 2, 5, 10, 20, 64, 65, 200])('cuts within the limit of %i tokens, however the text arrives', tokensMax => {
  const texts = ['word '.repeat(2_000), '漢字かな交じり文'.repeat(500), '🙂'.repeat(1_000), '1234567890'.repeat(500)]
  for (const text of texts) {
    for (const units of [1, 2, 7, 40, 3_000]) {
      const meter = meterFor(tokensMax)
      let position: number | null = null
      for (let at = 0; at < text.length && position === null; at += units) {
        meter.beginCounting()
        meter.addText(text.slice(at, at + units))
        position = meter.limitPosition()
      }
      const delivered = text.slice(0, position!)
      expect(countTokens(delivered)).toBeLessThanOrEqual(tokensMax * 1.25 + 8)
      expect(countTokens(delivered)).toBeGreaterThanOrEqual(tokensMax)
      expect(delivered.isWellFormed()).toBe(true)
    }
  }
})

test('a quarter more is not over the limit, because tokenizers differ', () => {
  const meter = meterFor(100)
  for (let piece = 0; piece < 120; piece++) meter.addText('word ')
  expect(meter.limitPosition()).toBeNull()
  for (let piece = 0; piece < 40; piece++) meter.addText('word ')
  expect(meter.limitPosition()).not.toBeNull()
})

test('many short pieces are not over the limit', () => {
  const meter = meterFor(200)
  for (let piece = 0; piece < 400; piece++) meter.addText('a')
  expect(meter.limitPosition()).toBeNull()
})

test('stops counting a long text once the result is certain', () => {
  const meter = meterFor(5)
  meter.addText('qxzj'.repeat(50_000))
  const slices = vi.spyOn(meter.text, 'slice')
  expect(meter.limitPosition()).not.toBeNull()
  expect(slices).toHaveBeenCalledOnce()
})

test('counts a huge piece in parts', () => {
  const meter = meterFor(50_000)
  meter.addText(' '.repeat(1_000_000))
  const slices = vi.spyOn(meter.text, 'slice')
  expect(meter.limitPosition()).toBeNull()
  expect(meter.limitPosition()).toBeNull()
  expect(slices).toHaveBeenCalledTimes(32)
  expect(meter.isBehind).toBe(true)
  for (let parts = 0; meter.isBehind; parts++) {
    expect(parts).toBeLessThan(160)
    meter.beginCounting()
    expect(meter.limitPosition()).toBeNull()
  }
})

test('pieces that arrive together share one allowance', () => {
  const meter = meterFor(2_000)
  const slices = vi.spyOn(meter.text, 'slice')
  for (let piece = 0; piece < 60; piece++) {
    meter.addText('a'.repeat(1_000))
    expect(meter.limitPosition()).toBeNull()
  }
  expect(slices).toHaveBeenCalledTimes(32)
})
