import { expect, test } from 'vitest'
import { uncounted } from '../../base/runtime/byte-budget.ts'
import { TextBuffer } from './text-buffer.ts'

test('joins pieces into one text, even when a character is split', () => {
  const buffer = new TextBuffer(uncounted)
  expect(String(buffer)).toBe('')
  let text = ''
  for (let n = 0; n < 500; n++) {
    for (const piece of [`${n} `, 'ä', '\ud834', '\udd1e', '']) {
      buffer.append(piece)
      text += piece
    }
  }
  expect(buffer.length).toBe(text.length)
  expect(String(buffer)).toBe(text)
  expect(buffer.slice(100, 200)).toBe(text.slice(100, 200))
  expect(buffer.slice(text.length - 5, text.length + 5)).toBe(text.slice(-5))
})
