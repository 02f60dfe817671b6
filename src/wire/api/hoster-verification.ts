import { z } from 'zod'
import { hosterStates } from '../../base/domain/hoster-state.ts'
import { codedSentences } from './coded-sentences.ts'

const problem = z.string().nullable().describe('What is wrong and what to do. Null: passed, or not checked yet.')
const step = z.object({ passed: z.boolean(), problem })
const shownStep = step.extend({ problem_codes: codedSentences })

/** What a check found. Stored as JSON. */
export const verificationReport = z.object({
  manifest: step,
  prices: step,
  probes: z.array(
    z.object({
      model: z.string(),
      passed: z.int().describe('Answers in a row that were right. Three are needed.'),
      problem,
    }),
  ),
  challenge_problem: problem,
})
export type VerificationReport = z.infer<typeof verificationReport>

/** The answer of `GET` and `POST /v1/hoster/verification`. */
export const verification = z
  .object({
    object: z.literal('hoster.verification'),
    state: z.enum(hosterStates),
    challenge: z
      .object({
        passed: z.boolean(),
        transport: z.enum(['direct', 'agent']),
        nonce: z.string().nullable().describe('What the server must publish. Null before the verification starts.'),
        url: z
          .string()
          .nullable()
          .describe('Where it can publish it as `{"challenge": "<nonce>"}`. Null: the agent proves the key.'),
        problem,
        problem_codes: codedSentences,
      })
      .describe('The proof that the hoster controls the server.'),
    manifest: shownStep,
    prices: shownStep,
    probes: z.array(verificationReport.shape.probes.element.extend({ problem_codes: codedSentences })),
    checked_at: z.string().nullable().describe('Null: not checked yet.'),
  })
  .meta({ id: 'HosterVerification' })
export type Verification = z.infer<typeof verification>
