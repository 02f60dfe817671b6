import type { Endpoint } from '../../base/domain/offer.ts'
import type { VerificationReport } from '../../wire/api/hoster-verification.ts'
import type { HostedModel } from '../supply/hosters/hosted-model.ts'
import { probeOf } from './probe.ts'

/** Answers in a row that a model must give. */
const PROBES = 3

/** Sends a POST to the server of a hoster, through the agent if it has one. Rejects when there is no answer. */
export type PostToHoster = (endpoint: Endpoint, path: string, body: string) => Promise<{ status: number; text: string }>

/** Probes a model until it has answered three times in a row, or fails. Never rejects. */
export async function runProbes(
  post: PostToHoster,
  endpoint: Endpoint,
  { modelId, upstreamModel, features }: Required<HostedModel>,
): Promise<VerificationReport['probes'][number]> {
  const probe = probeOf(upstreamModel ?? modelId, features)
  let passed = 0
  let problem: string | null = null
  while (passed < PROBES && problem === null) {
    problem = await post(endpoint, probe.path, probe.body).then(
      ({ status, text }) => probe.problemOf(status, text),
      (error: Error) => error.message,
    )
    if (problem === null) passed++
  }
  return { model: modelId, passed, problem }
}
