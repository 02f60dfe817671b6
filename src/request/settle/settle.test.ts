import { expect, test } from 'vitest'
import { testOffer } from '../../../test/harness/app.ts'
import { ownCost } from './settle.ts'

const cost = { inputPicoPerToken: 1_000n, outputPicoPerToken: 10_000n }
const offer = { ...testOffer('http://127.0.0.1:1'), cost }

test.each([
  ['as reported', { billed: [100, 50], reported: [100, 50] }, 600n],
  ['what the customer does not pay for', { billed: [0, 0], reported: [100, 50] }, 600n],
  ['as billed, when the report came before the end', { billed: [100, 50], reported: [100, 1] }, 600n],
  ['as billed, when the report has zeros', { billed: [100, 50], reported: [0, 0] }, 600n],
  ['as billed, without a report', { billed: [100, 50], reported: [null, null] }, 600n],
  ['nothing known, without any', { billed: [0, 0], reported: [null, null] }, 0n],
] as const)('a server costs %s', (_what, { billed, reported }, nanos) => {
  const [billedInputTokens, billedOutputTokens] = billed
  const [reportedInputTokens, reportedOutputTokens] = reported
  const receipt = { offer, billedInputTokens, billedOutputTokens, reportedInputTokens, reportedOutputTokens }
  expect(ownCost({ ...receipt, billedParts: null })).toBe(nanos)
})
