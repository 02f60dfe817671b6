import fc from 'fast-check'
import { expect, test } from 'vitest'
import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { decodeBase64, encodeBase64, encodeVector } from './vector-encoding.ts'

const float32 = fc.float({ noNaN: true, noDefaultInfinity: true })
const vectors = fc.array(float32, { minLength: 1, maxLength: 64 })

test('float32 numbers survive base64 and back exactly, in both directions', () => {
  fc.assert(
    fc.property(vectors, numbers => {
      const text = encodeBase64(numbers)
      expect([...decodeBase64(text)]).toEqual(numbers)
      const asText = encodeVector(numbers, 'base64')
      expect(JSON.parse(asText.json)).toBe(text)
      const back: number[] = JSON.parse(encodeVector(text, 'float').json)
      // JSON has no negative zero.
      expect(back).toEqual(numbers.map(number => number + 0))
      expect(encodeVector(text, 'base64')).toEqual(asText)
    }),
  )
})

test('the bytes are those of the machine-independent form', () => {
  expect(encodeBase64([1, -2])).toBe(Buffer.from('0000803f000000c0', 'hex').toString('base64'))
})

test('any text is decoded to finite numbers or refused', () => {
  const texts = fc.oneof(fc.string(), fc.base64String({ minLength: 4 }))
  fc.assert(
    fc.property(texts, text => {
      try {
        const { json, length } = encodeVector(text, 'float')
        const numbers: unknown[] = JSON.parse(json)
        expect(numbers).toHaveLength(length)
        for (const number of numbers) expect(number).toBeTypeOf('number')
      } catch (error) {
        expect(error).toBeInstanceOf(UpstreamFailure)
      }
    }),
  )
})
