import { z } from 'zod'
import { hosterStates } from '../../base/domain/hoster-state.ts'
import { isPlain } from '../../base/runtime/plain-text.ts'
import { codedSentences } from './coded-sentences.ts'
import { parseStrictBody } from './strict-body.ts'

const kinds = ['meter', 'canary', 'fingerprint', 'agreement', 'sampling', 'shadow'] as const

const shape = {
  object: z.literal('hoster_trust'),
  hoster_id: z.string(),
  name: z.string(),
  state: z.enum(hosterStates),
  score: z.number().describe('The score, 0 to 1.'),
  is_trusted: z.boolean().describe('The score is above 0.8, so the hoster may serve `trusted_only` requests.'),
  is_set_by_operator: z.boolean().describe('The operator has set the score; `earned_score` does not count.'),
  earned_score: z.number(),
  is_quarantined: z.boolean(),
  standing: z.enum(['unverified', 'verified', 'contract']),
  cap: z.number().describe('The highest score of this standing.'),
  components: z
    .array(
      z.object({
        name: z.enum(['reliability', 'honesty', 'conformance']),
        counts: z.string().describe('What counts as good.'),
        exponent: z.number(),
        rate: z.number().describe('The share of good results; bad ones count twice.'),
        sample: z.number().describe('The effective number of results, after decay.'),
        bound: z.number().describe('The lower 95% bound, which counts.'),
      }),
    )
    .describe('The earned score is the product of bound ^ exponent, at most the cap.'),
  gates: z
    .array(
      z.object({
        name: z.enum(['requests', 'audits', 'ageDays', 'honestyBound']),
        has: z.number(),
        needs: z.number(),
        is_passed: z.boolean(),
      }),
    )
    .describe('A score above 0.8 needs all of them.'),
  would_raise: z.array(z.string()).describe('What would raise the score, the most effective first.'),
  would_raise_codes: codedSentences,
  requests: z.int().describe('Requests ever counted.'),
  audits: z.int().describe('Audits ever passed or failed.'),
  signals: z
    .array(
      z.object({
        signal: z.enum(kinds),
        compares: z.string(),
        passed: z.int(),
        failed: z.int(),
        undecided: z.int().describe('Too little was known to judge them; they count neither way.'),
      }),
    )
    .describe('The audits of the last 90 days by signal. One failed audit proves nothing.'),
}

const audit = {
  kind: z.enum(kinds),
  model: z.string(),
  passed: z.boolean().nullable().describe('Null: too little is known to judge it.'),
  statistic: z
    .number()
    .describe(
      'meter: mean of ln(reported / expected). canary: failed ones. sampling: p-value. Otherwise the distance.',
    ),
  sample: z.int(),
}

const utcDay = z.string().regex(/^\d{4}-\d\d-\d\d$/)

/** A hoster that knew when it was audited could find the audits in its own log: see `shownDay`. */
const late = {
  as_of_day: utcDay
    .nullable()
    .describe(
      'Score, components, gates, requests, audits and tests are those of the end of this UTC day, which ended at least 24 hours ago. Null: no such day has been recorded, so nothing is shown yet.',
    ),
  last_audits: z
    .array(z.object({ ...audit, day: utcDay.describe('The UTC day of the audit.') }))
    .describe('The newest day first, and in no order within a day. The prompts are not stored.'),
}

const example = {
  object: 'hoster_trust',
  hoster_id: '5b0e7a1c-8f0d-4a34-9d7f-2f0f6f1d9c11',
  name: 'acme',
  state: 'active',
  score: 0.8,
  is_trusted: false,
  is_set_by_operator: false,
  earned_score: 0.8,
  is_quarantined: false,
  standing: 'verified',
  cap: 0.9,
  components: [
    {
      name: 'reliability',
      counts:
        'Requests of customers without a fault of the hoster, weighted by what was paid. `sample` is how many requests of equal weight would tell as much.',
      exponent: 0.5,
      rate: 0.99,
      sample: 812,
      bound: 0.981,
    },
    {
      name: 'honesty',
      counts: 'Audits passed: token audits, canaries, and comparisons with other servers of the same models.',
      exponent: 0.35,
      rate: 1,
      sample: 61,
      bound: 0.941,
    },
    {
      name: 'conformance',
      counts:
        'Answers that could be read, reported their usage, kept to `max_tokens` and named the requested model, weighted like requests.',
      exponent: 0.15,
      rate: 1,
      sample: 804,
      bound: 0.995,
    },
  ],
  gates: [
    { name: 'requests', has: 1204, needs: 200, is_passed: true },
    { name: 'audits', has: 64, needs: 70, is_passed: false },
    { name: 'ageDays', has: 9, needs: 7, is_passed: true },
    { name: 'honestyBound', has: 0.941, needs: 0.9, is_passed: true },
  ],
  would_raise: ['6 more audits. They arrive by themselves, the more often the more traffic the models have.'],
  would_raise_codes: [{ code: 'trust.audits', values: { count: 6 } }],
  requests: 1204,
  audits: 64,
  signals: [
    {
      signal: 'canary',
      compares: 'Prompts with known answers, which arrive like those of customers.',
      passed: 25,
      failed: 0,
      undecided: 1,
    },
  ],
  as_of_day: '2026-11-25',
  last_audits: [{ kind: 'canary', model: 'llama-3.3-70b', passed: true, statistic: 0, sample: 1, day: '2026-11-25' }],
}

/** The answer of `GET /v1/hosters/{id}/trust`. */
export const hosterTrust = z.object({ ...shape, ...late }).meta({ id: 'HosterTrust', example })

const ownParts = {
  tests: z
    .array(
      z.object({
        signal: z.enum(kinds),
        audits: z.int(),
        p: z.number().describe('The smallest p-value that the sequential test has reached.'),
        proof_alone_below: z.number(),
        proof_with_another_below: z.number(),
      }),
    )
    .describe('The tests that may prove a cheat.'),
  quarantine_reason: z.string().nullable(),
  quarantine_reason_codes: codedSentences,
  appeals: z.array(
    z.object({
      text: z.string(),
      at: z.string(),
      answer: z.string().nullable().describe("The operator's answer. Null: it waits."),
      answered_at: z.string().nullable(),
    }),
  ),
  speeds: z
    .array(
      z.object({
        model: z.string(),
        tokens_per_second: z.int(),
        is_implausible: z
          .boolean()
          .nullable()
          .describe('Faster than any known hardware. A hint only. Null: the name of the model tells no size.'),
      }),
    )
    .describe('The median speed of the answers of the last hour.'),
}

/** The answer of `GET /v1/hoster/trust`. */
export const ownTrust = z.object({ ...shape, ...late, ...ownParts }).meta({ id: 'OwnHosterTrust' })

/** What the operator sees: all of it at once. */
export const operatorTrust = z.object({
  ...shape,
  last_audits: z.array(z.object({ ...audit, at: z.string() })).describe('The newest first.'),
  recognisable_models: z
    .array(z.string())
    .readonly()
    .describe(
      'Models that no server or cloud of the operator has and no prompt of the operator is for: the hoster may recognise their audits.',
    ),
  ...ownParts,
})

const textMessage = 'text of 1 to 4000 characters, without control characters other than line breaks'
const text = z
  .string({ error: textMessage })
  .trim()
  .min(1, { error: textMessage })
  .max(4_000, { error: textMessage })
  .refine(written => isPlain(written.replaceAll(/[\t\r\n]/g, ' ')), { error: textMessage })

export const appealBody = z.strictObject({ text }, { error: 'a JSON object' }).meta({ id: 'HosterAppeal' })

const decision = z.strictObject(
  { decision: z.enum(['end', 'keep'], { error: 'end or keep' }), reason: text },
  { error: 'a JSON object' },
)

/** Parses an appeal. Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`. */
export function parseAppeal(body: Buffer): z.output<typeof appealBody> {
  return parseStrictBody(body, appealBody, 'an appeal')
}

/** Parses what the operator decides on a quarantine. Throws like `parseAppeal`. */
export function parseQuarantineDecision(body: Buffer): z.output<typeof decision> {
  return parseStrictBody(body, decision, 'a decision on a quarantine')
}
