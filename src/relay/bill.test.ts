import { expect, test } from 'vitest'
import { countTokens } from '../dialects/tokens/count-tokens.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { TokenUsage } from '../domain/completion.ts'
import type { Answer, Outcome, Receipt, Ticket } from '../domain/handoff.ts'
import type { ProviderKind } from '../domain/offer.ts'
import { bill } from './bill.ts'

const prompt = 'How far is it from the signal box to the river?'
const text = `${'It is six minutes on foot, or four when the train is late and you know it. '.repeat(4)}So they say.`
const outputCount = countTokens(text)
const ticket = { maxTokens: 1_000 } as Ticket
const job = {
  choices: 1,
  promptText: () => prompt,
  messageCount: 1,
  hasStop: false,
  mediaTokensBound: 0,
  inputTokensBound: 500,
} as unknown as ChatJob
const inputCount = countTokens(prompt) + 6
/** Of the 80 tokens of the text: without a fraction, so that "at most" is told from "less than". */
const mostBelieved = 80 * 1.05 + 8
const fewestBelieved = Math.ceil((80 - 8) / 1.25)

/** The tokens billed, and by whose count, when an answer of `kind` ends like this. */
function billed(
  kind: ProviderKind,
  outcome: Outcome,
  delivered: { text?: string; reported?: [number, number] | null; chargeInputOnly?: boolean },
) {
  const receipt = receiptOf(kind, outcome, delivered)
  return [receipt.billedInputTokens, receipt.billedOutputTokens, receipt.usageSource]
}

function receiptOf(kind: ProviderKind, outcome: Outcome, delivered: Parameters<typeof billed>[2]) {
  const answer = { offer: { endpoint: { kind } }, attempts: [], firstTokenMs: 1 } as unknown as Answer
  const reported = delivered.reported
    ? ({
        prompt_tokens: delivered.reported[0],
        completion_tokens: delivered.reported[1],
        total_tokens: 0,
      } as TokenUsage)
    : null
  return bill(ticket, job, answer, {
    outcome,
    text: delivered.text ?? text,
    reported,
    finishReason: null,
    chargeInputOnly: delivered.chargeInputOnly ?? false,
  })
}

test.each<[string, unknown[], unknown[]]>([
  ['served: as reported', billed('local', 'served', { reported: [20, 80] }), [20, 80, 'upstream']],
  ['served without a report: our count', billed('cloud', 'served', {}), [inputCount, outputCount, 'gateway']],
  [
    'served, report of 0 output tokens: our count of it',
    billed('cloud', 'served', { reported: [20, 0] }),
    [20, outputCount, 'gateway'],
  ],
  [
    'served, report of 0 input tokens: our count of it',
    billed('local', 'served', { reported: [0, 80] }),
    [inputCount, 80, 'gateway'],
  ],
  [
    'served without text, report of 0 input tokens: hidden reasoning, and our count of the input',
    billed('local', 'served', { text: '', reported: [0, 80] }),
    [inputCount, 80, 'gateway'],
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
    'served without text or report, as where a filter refuses: nothing',
    billed('cloud', 'served', { text: '' }),
    [0, 0, 'none'],
  ],
  [
    'client left after a report that fits what it had received, a quarter and 8 tokens more at most: the report',
    billed('cloud', 'client_gone', { reported: [20, fewestBelieved] }),
    [20, fewestBelieved, 'upstream'],
  ],
  [
    'client left after a report that is just too small for that: our count',
    billed('cloud', 'client_gone', { reported: [20, fewestBelieved - 1] }),
    [20, outputCount, 'gateway'],
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
    'client left before it received anything of an answer that was generated: nothing',
    billed('local', 'client_gone', { text: '', reported: [20, 80] }),
    [0, 0, 'none'],
  ],
  [
    'client left so too often: the input',
    billed('local', 'client_gone', { text: '', chargeInputOnly: true }),
    [inputCount, 0, 'gateway'],
  ],
  ['upstream died: nothing', billed('hoster', 'interrupted', { reported: [20, 80] }), [0, 0, 'none']],
  ['gateway stopped: nothing', billed('local', 'shutdown', { reported: [20, 80] }), [0, 0, 'none']],
  [
    'hoster within 5 % and 8 tokens: believed',
    billed('hoster', 'served', { reported: [inputCount, mostBelieved] }),
    [inputCount, mostBelieved, 'upstream'],
  ],
  [
    'hoster above that: our count',
    billed('hoster', 'served', { reported: [inputCount, mostBelieved + 1] }),
    [inputCount, outputCount, 'gateway'],
  ],
  [
    'hoster reports too few: its own loss',
    billed('hoster', 'served', { reported: [inputCount, 3] }),
    [inputCount, 3, 'upstream'],
  ],
])('%s', (_row, receipt, expected) => {
  expect(receipt).toEqual(expected)
})

test('a receipt keeps what was reported beside what was counted, for whoever looks for hosters that report too much', () => {
  const noticed = ({ reportedInputTokens, reportedOutputTokens, countedInputTokens, countedOutputTokens }: Receipt) => [
    [reportedInputTokens, reportedOutputTokens],
    [countedInputTokens, countedOutputTokens],
  ]
  expect(noticed(receiptOf('hoster', 'served', { reported: [499, 5_000] }))).toEqual([
    [499, 5_000],
    [inputCount, outputCount],
  ])
  expect(noticed(receiptOf('local', 'served', { reported: [20, 80] }))).toEqual([
    [20, 80],
    [null, null],
  ])
  expect(noticed(receiptOf('local', 'served', {}))).toEqual([
    [null, null],
    [inputCount, outputCount],
  ])
})
