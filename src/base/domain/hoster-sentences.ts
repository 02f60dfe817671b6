import { sentencesIn, sentencesOf } from './said.ts'

/** What the gateway writes into the history of a hoster, and what it finds when it verifies one. They are stored in English. */
export const hosterSentences = {
  'hoster.applied': 'The hoster applied.',
  'hoster.invited': 'The operator invited the hoster.',
  'hoster.agent_connected': 'The agent connected.',
  'hoster.asked': 'The hoster asked to be verified.',
  'hoster.passed': 'Challenge, manifest, prices and probes passed.',
  'hoster.automatic': 'hosters.approval is automatic.',
  'hoster.activated': 'The operator activated it.',
  'hoster.suspended': 'The operator suspended it.',
  'hoster.moved': 'The server changed, so it must be verified again.',
  'hoster.no_reason': 'The operator gave no reason.',
  'hoster.cheat.meter': 'Audits prove a cheat: it reports more tokens than honest servers of the model do ({p}).',
  'hoster.cheat.canary': 'Audits prove a cheat: it fails prompts that honest servers of the model answer ({p}).',
  'hoster.cheat.fingerprint': 'Audits prove a cheat: the probabilities of its tokens are not those of the model ({p}).',
  'hoster.cheat.agreement': 'Audits prove a cheat: its answers differ from those of honest servers of the model ({p}).',
  'hoster.cheat.sampling': 'Audits prove a cheat: its answers at random do not come from the model ({p}).',
  'hoster.cheat.shadow':
    'Audits prove a cheat: its answers differ from those of a reference where honest servers of the model agree with it ({p}).',
  'hoster.agent_missing': 'The agent has not connected yet. Start it with a key of this hoster.',
  'hoster.no_nonce':
    'The server does not publish the nonce, neither at the challenge address nor as the id of a model.',
  'hoster.no_answer': 'The server does not answer: {error}.',
  'hoster.price_too_high': 'The price of {model} is above the highest that this operator allows. Lower it.',
  'hoster.no_manifest': 'There is no manifest yet. Send one with PUT /v1/hoster/manifest.',
  'hoster.no_models':
    'The model list of the server has no model with prices, so it is no manifest. Send one with PUT /v1/hoster/manifest.',
  'hoster.probe.status': 'the server answered with status {status}',
  'hoster.probe.no_object': 'the answer is not a JSON object',
  'hoster.probe.empty': 'the answer has no content',
} as const

export const sayOfHoster = sentencesOf(hosterSentences)

/** The codes of a stored text; none if a person wrote it. */
export const hosterCodes = sentencesIn(hosterSentences)
