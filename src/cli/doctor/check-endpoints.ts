import type { LookupFunction } from 'node:net'
import type { GoogleServiceAccount } from '../../base/domain/cloud-credential.ts'
import type { Dialect } from '../../base/domain/conversation.ts'
import { credentialHeader, type Endpoint, type Offer } from '../../base/domain/offer.ts'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import { ownCommand } from '../../base/runtime/own-command.ts'
import { quoteForShell } from '../../base/runtime/quote-for-shell.ts'
import { systemClock } from '../../base/runtime/scheduler.ts'
import { modelLists } from '../../market/supply/providers/list-models.ts'
import { awsSignatureHeaders } from '../../wire/credentials/aws-signature.ts'
import { GoogleToken } from '../../wire/credentials/google-token.ts'
import { getJson } from '../../wire/egress/get-json.ts'
import { CHECK_TIMEOUT_MS, type Finding, runCheck } from './finding.ts'

/**
 * Checks that each endpoint answers `GET /models`, in the form of the vendor whose API it has, and lists the models that
 * it must serve.
 */
export async function checkEndpoints(offers: readonly Offer[], lookup?: LookupFunction): Promise<Finding[]> {
  const byEndpoint = Map.groupBy(offers, offer => offer.endpoint)
  return Promise.all(
    [...byEndpoint].map(([endpoint, endpointOffers]) =>
      runCheck(`${endpoint.kind} ${endpoint.name}`, () => checkEndpoint(endpoint, endpointOffers, lookup)),
    ),
  )
}

async function checkEndpoint(endpoint: Endpoint, offers: readonly Offer[], lookup?: LookupFunction): Promise<string> {
  if (endpoint.credential?.kind === 'google_service_account') return checkServiceAccount(endpoint.credential)
  const url = `${endpoint.baseUrl}/models`
  const list = modelLists[dialectOf(offers)]
  const address = `${url}${list?.query ?? ''}`
  const headers = { ...headersFor(endpoint, address), ...list?.headers }
  const answer = await getJson(address, { timeoutMs: CHECK_TIMEOUT_MS, headers, lookup }).catch((error: Error) => {
    throw new Error(`${url} does not answer (${error.message}). Check that the server runs and that base_url is right.`)
  })
  // The server knows no such path, so its status says nothing about the key.
  if (list === null) return `${endpoint.baseUrl} answers; its API has no list of models, so they are not checked`
  if (answer.status === 401 || answer.status === 403) {
    throw new Error(`${url} refuses the key (${answer.status}). ${keyAdvice(endpoint)}`)
  }
  // A server without a list of models can still serve chats.
  if (answer.status === 404 || answer.status === 405) {
    return `${endpoint.baseUrl} answers, but does not list its models`
  }
  const listed = isJsonObject(answer.body) ? answer.body[list.field] : undefined
  if (answer.status !== 200 || !Array.isArray(listed)) {
    const advice = `Check that base_url ends in ${list.version}.`
    throw new Error(`${url} answers ${answer.status} without a list of models. ${advice}`)
  }
  const known = new Set(listed.flatMap(model => (isJsonObject(model) ? [list.idOf(model), list.aliasOf(model)] : [])))
  const missing = offers.map(({ upstreamModel }) => upstreamModel).filter(model => !known.has(model))
  if (missing.length > 0) {
    throw new Error(`${endpoint.baseUrl} does not list ${missing.join(', ')}. Check upstream_model.`)
  }
  return `${endpoint.baseUrl} answers and lists ${offers.length === 1 ? 'its model' : `all ${offers.length} models`}`
}

/** The dialect of the server: OpenAI's if it speaks that for any model, else the first of its first model. */
function dialectOf(offers: readonly Offer[]): Dialect {
  const spoken = offers.flatMap(({ speaks = ['chat'] }) => speaks)
  return spoken.find(dialect => modelLists[dialect] === modelLists.chat) ?? spoken[0]!
}

function headersFor(endpoint: Endpoint, url: string): Record<string, string> {
  const { credential } = endpoint
  if (credential?.kind === 'aws_keys') {
    return awsSignatureHeaders(credential, { method: 'GET', url: new URL(url), body: '', epochMs: Date.now() })
  }
  const header = credentialHeader(endpoint)
  return header === null ? {} : Object.fromEntries([header])
}

/** Vertex has no list of the models that an account may use, and a request to a model would cost money. */
async function checkServiceAccount(account: GoogleServiceAccount): Promise<string> {
  try {
    await new GoogleToken(account, systemClock).get()
    return `Google gives a token to ${account.clientEmail}; its models are not checked`
  } catch (error) {
    const advice =
      'Check google_service_account, that its key is still active, and that this machine reaches its token_uri.'
    throw new Error(`${account.clientEmail} gets no token: ${(error as Error).message}. ${advice}`)
  }
}

function keyAdvice({ kind, name, credential }: Endpoint): string {
  if (credential?.kind === 'aws_keys')
    return 'Check the aws_ keys, aws_region, and that the clock of this machine is right.'
  return kind === 'hoster'
    ? `Set a new key: ${ownCommand(`hoster key ${quoteForShell(name)} --key-file <file>`)}`
    : 'Check api_key.'
}
