import type { ChatJob } from '../../src/base/domain/chat-job.ts'
import type { Answer, Hold, Ticket } from '../../src/base/domain/handoff.ts'
import type { MeterRatio } from '../../src/base/domain/meter-ratio.ts'
import { costNanos, splitCost } from '../../src/base/domain/money.ts'
import type { ReportedUse } from '../../src/market/trust/meter-audit.ts'
import { bill } from '../../src/request/relay/bill.ts'
import { settlementOf } from '../../src/request/settle/settle.ts'

/** USD per million tokens: 0.20 and 0.60. The hoster gets 80%. */
const PRICE = { inputPicoPerToken: 200_000n, outputPicoPerToken: 600_000n }
const SHARE_BPS = 8_000

/** What one answer brought to a hoster, nano-USD. */
export interface Earned {
  readonly nanos: number
  /** What honest reports would have brought. */
  readonly honestNanos: number
}

/**
 * Bills an answer with the gateway's own code, by the report, the gateway's count and the learned ratio of the model.
 *
 * @param honest how many tokens an honest server reports for one that the gateway counts
 */
export function earn(use: ReportedUse, learned: MeterRatio, honest: MeterRatio): Earned {
  const { countedInput, countedOutput } = use
  const offer = {
    endpoint: { kind: 'hoster', endpointId: 'e', hosterId: 'h', hosterShareBps: SHARE_BPS },
    modelId: 'm',
    meterRatio: learned,
    price: PRICE,
    contextTokens: 1_000_000,
    maxOutputTokens: 100_000,
  }
  const ticket = {
    requestId: '1',
    maxTokens: 100_000,
    caller: {},
    models: ['m'],
    promptLength: { tokens: countedInput, tokensBound: countedInput },
    hold: { nanos: 10n ** 12n } as Hold,
  }
  const job = {
    task: 'chat',
    choices: 1,
    maxTokens: null,
    messageCount: -1,
    mediaTokensBound: 0,
    inputTokensBound: 1_000_000,
    features: new Set(),
  }
  const receipt = bill(
    ticket as unknown as Ticket,
    job as unknown as ChatJob,
    { offer, attempts: [], firstTokenMs: 1 } as unknown as Answer,
    {
      outcome: 'served',
      text: { length: 4 * countedOutput, toString: () => '' },
      reported: {
        prompt_tokens: use.reportedInput,
        completion_tokens: use.reportedOutput,
        total_tokens: use.reportedInput + use.reportedOutput,
      },
      finishReason: 'stop',
      measured: { prompt: undefined, output: { tokens: countedOutput, tokensBound: countedOutput } },
    },
  )
  const honestCost = costNanos(
    PRICE,
    Math.round(countedInput * honest.input),
    Math.round(countedOutput * honest.output),
  )
  return {
    nanos: Number(settlementOf(ticket as unknown as Ticket, receipt, null, 0).hosterShareNanos),
    honestNanos: Number(splitCost(honestCost, SHARE_BPS).hosterShareNanos),
  }
}
