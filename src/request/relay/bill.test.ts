import { expect, test } from 'vitest'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { TokenUsage } from '../../base/domain/completion.ts'
import type { Answer, Outcome, Receipt, Ticket } from '../../base/domain/handoff.ts'
import type { MeterRatio } from '../../base/domain/meter-ratio.ts'
import type { ProviderKind } from '../../base/domain/offer.ts'
import { countTokens } from '../../wire/tokens/count-tokens.ts'
import { bill } from './bill.ts'

const prompt = 'How far is it from the signal box to the river?'
const text = `${'It is six minutes on foot, or four when the train is late and you know it. '.repeat(4)}So they say.`
const outputCount = countTokens(text)
const ticket = { maxTokens: 1_000 } as Ticket
const job = {
  task: 'chat',
  choices: 1,
  maxTokens: 1_000,
  promptText: () => prompt,
  promptTextBytes: prompt.length,
  messageCount: 1,
  hasStop: false,
  mediaTokensBound: 0,
  inputTokensBound: 500,
  features: new Set(),
} as unknown as ChatJob
const inputCount = countTokens(prompt) + 6
/**
 * The highest report for the 80 tokens of the text that is accepted. It has no fraction, so that the tests can
 * distinguish "at most" from "less than".
 */
const highestAccepted = 80 * 1.05 + 8
const lowestAccepted = Math.ceil((80 - 8) / 1.25)

/** Returns the billed tokens and the source of the count for an answer of `kind` that ends with `outcome`. */
function billed(
  kind: ProviderKind,
  outcome: Outcome,
  delivered: {
    text?: string
    hasMedia?: boolean
    reported?: [number, number] | null
    chargeInputOnly?: boolean
    maxOutputTokens?: number
    meterRatio?: MeterRatio
    requestId?: string
  },
) {
  const receipt = createReceipt(kind, outcome, delivered)
  return [receipt.billedInputTokens, receipt.billedOutputTokens, receipt.usageSource]
}

function createReceipt(kind: ProviderKind, outcome: Outcome, delivered: Parameters<typeof billed>[2]) {
  const { maxOutputTokens = 4_096 } = delivered
  const { meterRatio, requestId = '1' } = delivered
  const offer = { endpoint: { kind }, contextTokens: 8_192, maxOutputTokens, ...(meterRatio && { meterRatio }) }
  const answer = { offer, attempts: [], firstTokenMs: 1 } as unknown as Answer
  const reported = delivered.reported
    ? ({
        prompt_tokens: delivered.reported[0],
        completion_tokens: delivered.reported[1],
        total_tokens: 0,
      } as TokenUsage)
    : null
  return bill({ ...ticket, requestId }, job, answer, {
    outcome,
    text: delivered.text ?? text,
    hasMedia: delivered.hasMedia ?? false,
    reported,
    finishReason: null,
    chargeInputOnly: delivered.chargeInputOnly ?? false,
  })
}

test.each<[string, unknown[], unknown[]]>([
  ['served: as reported', billed('local', 'served', { reported: [20, 80] }), [20, 80, 'upstream']],
  ['served without a report: our count', billed('cloud', 'served', {}), [inputCount, outputCount, 'gateway']],
  [
    'served, report of 0 output tokens: our count of the output',
    billed('cloud', 'served', { reported: [20, 0] }),
    [20, outputCount, 'gateway'],
  ],
  [
    'served, report of 0 input tokens: our count of the input',
    billed('local', 'served', { reported: [0, 80] }),
    [inputCount, 80, 'gateway'],
  ],
  [
    'served without output by a hoster, whatever it reports: nothing',
    billed('hoster', 'served', { text: '', reported: [20, 1] }),
    [0, 0, 'none'],
  ],
  [
    'served without output by our own server, as when hidden reasoning used up the limit: nothing',
    billed('local', 'served', { text: '', reported: [20, 80] }),
    [0, 0, 'none'],
  ],
  [
    'served with audio but no text: the report',
    billed('cloud', 'served', { text: '', hasMedia: true, reported: [20, 80] }),
    [20, 80, 'upstream'],
  ],
  [
    'hoster that reports 0 output tokens: our count',
    billed('hoster', 'served', { reported: [inputCount, 0] }),
    [inputCount, outputCount, 'gateway'],
  ],
  [
    'client left after a report that came with the first chunk: our count',
    billed('cloud', 'client_gone', { reported: [20, 1] }),
    [20, outputCount, 'gateway'],
  ],
  [
    'served without text or report, as when a filter refuses: nothing',
    billed('cloud', 'served', { text: '' }),
    [0, 0, 'none'],
  ],
  [
    'client left after a report at most a quarter and 8 tokens below our count: the report',
    billed('cloud', 'client_gone', { reported: [20, lowestAccepted] }),
    [20, lowestAccepted, 'upstream'],
  ],
  [
    'client left after a report one token lower than that: our count',
    billed('cloud', 'client_gone', { reported: [20, lowestAccepted - 1] }),
    [20, outputCount, 'gateway'],
  ],
  [
    'served, report above the limit of this model: that limit',
    billed('local', 'served', { reported: [20, 900], maxOutputTokens: 64 }),
    [20, 64, 'upstream'],
  ],
  [
    'served, report above max_tokens: max_tokens',
    billed('local', 'served', { reported: [20, 5_000] }),
    [20, 1_000, 'upstream'],
  ],
  [
    'served, prompt reported above its bound: the bound',
    billed('local', 'served', { reported: [9_000, 80] }),
    [500, 80, 'upstream'],
  ],
  [
    'client left in the middle: what was generated',
    billed('local', 'client_gone', {}),
    [inputCount, outputCount, 'gateway'],
  ],
  ['client left before the first token: nothing', billed('local', 'client_gone', { text: '' }), [0, 0, 'none']],
  [
    'client left before it received any of a generated answer: nothing',
    billed('local', 'client_gone', { text: '', reported: [20, 80] }),
    [0, 0, 'none'],
  ],
  [
    'client left before the first token too often: the input',
    billed('local', 'client_gone', { text: '', chargeInputOnly: true }),
    [inputCount, 0, 'gateway'],
  ],
  ['upstream died: nothing', billed('hoster', 'interrupted', { reported: [20, 80] }), [0, 0, 'none']],
  ['gateway stopped: nothing', billed('local', 'shutdown', { reported: [20, 80] }), [0, 0, 'none']],
  [
    'hoster within 5% and 8 tokens: the report',
    billed('hoster', 'served', { reported: [inputCount, highestAccepted] }),
    [inputCount, highestAccepted, 'upstream'],
  ],
  [
    'hoster above that: our count',
    billed('hoster', 'served', { reported: [inputCount, highestAccepted + 1] }),
    [inputCount, outputCount, 'gateway'],
  ],
  [
    'hoster reports too few tokens: the report',
    billed('hoster', 'served', { reported: [inputCount, 3] }),
    [inputCount, 3, 'upstream'],
  ],
])('%s', (_row, receipt, expected) => {
  expect(receipt).toEqual(expected)
})

const doubled = { input: 1, output: 1.25 }

test.each<[string, unknown[], unknown[]]>([
  [
    'within the ratio of the model and its band: the report',
    billed('hoster', 'served', { reported: [inputCount, 113], meterRatio: doubled }),
    [inputCount, 113, 'upstream'],
  ],
  [
    'above the band: our count x ratio, rounded up',
    billed('hoster', 'served', { reported: [inputCount, 114], meterRatio: doubled }),
    [inputCount, 100, 'gateway'],
  ],
  [
    'a model with a tokenizer that makes fewer tokens: a report of our count is too high',
    billed('hoster', 'served', { reported: [inputCount, 80], meterRatio: { input: 1, output: 0.8 } }),
    [inputCount, 64, 'gateway'],
  ],
  [
    'local servers are billed by their report, whatever the ratio',
    billed('local', 'served', { reported: [inputCount, 500], meterRatio: doubled, requestId: '0' }),
    [inputCount, 500, 'upstream'],
  ],
])('with a learned ratio: %s', (_row, receipt, expected) => {
  expect(outputCount).toBe(80)
  expect(receipt).toEqual(expected)
})

test('one answer in 16 of a local server is counted, if hosters offer the model', () => {
  const counted = (options: { meterRatio?: MeterRatio; requestId: string }) =>
    createReceipt('local', 'served', { reported: [20, 80], ...options }).countedOutputTokens
  expect(counted({ meterRatio: doubled, requestId: 'a0' })).toBe(outputCount)
  expect(counted({ meterRatio: doubled, requestId: 'a1' })).toBeNull()
  expect(counted({ requestId: 'a0' })).toBeNull()
})

test('a receipt has the reported and the counted tokens, to find hosters that report too many', () => {
  const tokenCounts = ({
    reportedInputTokens,
    reportedOutputTokens,
    countedInputTokens,
    countedOutputTokens,
  }: Receipt) => [
    [reportedInputTokens, reportedOutputTokens],
    [countedInputTokens, countedOutputTokens],
  ]
  expect(tokenCounts(createReceipt('hoster', 'served', { reported: [499, 5_000] }))).toEqual([
    [499, 5_000],
    [inputCount, outputCount],
  ])
  expect(tokenCounts(createReceipt('local', 'served', { reported: [20, 80] }))).toEqual([
    [20, 80],
    [null, null],
  ])
  expect(tokenCounts(createReceipt('local', 'served', {}))).toEqual([
    [null, null],
    [inputCount, outputCount],
  ])
})
