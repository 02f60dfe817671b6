import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import { StopMatcher, statesOf } from './stop-matcher.ts'

/** Where the answer ends, found without any cleverness: at the first character that completes a sequence. */
function expected(text: string, stops: readonly string[]): { text: string; stop: string | null } {
  for (let end = 1; end <= text.length; end++) {
    const found = stops.filter(stop => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)
    if (found.length > 0) return { text: text.slice(0, end - found[0]!.length), stop: found[0]! }
  }
  return { text, stop: null }
}

it('finds the first sequence, however the text is split', () => {
  const letters = fc.stringMatching(/^[ab]{1,5}$/)
  fc.assert(
    fc.property(fc.array(letters, { minLength: 1, maxLength: 4 }), fc.array(letters), (stops, pieces) => {
      const matcher = new StopMatcher(statesOf(stops))
      let text = ''
      let found: string | null = null
      for (const piece of pieces) {
        const cut = matcher.push(piece)
        text += cut.text
        found = cut.stop
        if (found !== null) break
      }
      if (found === null) text += matcher.flush()
      expect({ text, stop: found }).toEqual(expected(pieces.join(''), stops))
    }),
  )
})

it('holds back no more than may be the beginning of a sequence', () => {
  const matcher = new StopMatcher(statesOf(['\n\nUser:', 'END']))
  expect(matcher.push('Hello EN')).toMatchObject({ text: 'Hello ', stop: null })
  expect(matcher.push('TER\n')).toMatchObject({ text: 'ENTER', stop: null })
  expect(matcher.push('\nUser: x')).toEqual({ text: '', stop: '\n\nUser:', rest: ' x' })
})

it('begins anew after what was held back', () => {
  const matcher = new StopMatcher(statesOf(['END']))
  expect([matcher.push('E').text, matcher.flush(), matcher.push('ND').text]).toEqual(['', 'E', 'ND'])
})

it('takes at most two steps for a character, however many sequences there are', () => {
  const states = statesOf(Array.from({ length: 256 }, (_, at) => `${'a'.repeat(at)}b${at}`))
  const steps = vi.spyOn(states.next as Map<number, number>, 'get')
  const text = `${'a'.repeat(500)}c`.repeat(20)
  expect(new StopMatcher(states).push(text).stop).toBe(null)
  expect(steps.mock.calls.length).toBeLessThanOrEqual(2 * text.length)
})
