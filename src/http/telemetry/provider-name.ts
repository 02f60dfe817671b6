import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Endpoint, Offer } from '../../base/domain/offer.ts'

const namesByEndpoint = new WeakMap<Endpoint, string>()

/**
 * Returns the name of a server's vendor, as `gen_ai.provider.name` wants it. Servers of unknown vendors have the name
 * of their kind: `local`, `hoster` or `cloud`.
 */
export function providerName(endpoint: Endpoint): string {
  let name = namesByEndpoint.get(endpoint)
  if (name === undefined) {
    const { hostname = '' } = URL.parse(endpoint.baseUrl) ?? {}
    // A hoster may call its server as it likes.
    const vendor = endpoint.kind === 'cloud' ? vendors.find(([pattern]) => pattern.test(hostname)) : undefined
    name = vendor?.[1] ?? endpoint.kind
    namesByEndpoint.set(endpoint, name)
  }
  return name
}

/** Host names of clouds, with the values that the conventions list. */
const vendors: readonly (readonly [RegExp, string])[] = [
  [/(?:^|\.)openai\.azure\.com$|\.cognitiveservices\.azure\.com$/, 'azure.ai.openai'],
  [/\.services\.ai\.azure\.com$|\.inference\.ai\.azure\.com$/, 'azure.ai.inference'],
  [/(?:^|\.)openai\.com$/, 'openai'],
  [/(?:^|\.)anthropic\.com$/, 'anthropic'],
  [/^bedrock(?:-runtime|-mantle)?\..*amazonaws\.com$/, 'aws.bedrock'],
  [/^generativelanguage\.googleapis\.com$/, 'gcp.gemini'],
  [/(?:^|-)aiplatform\.(?:[\w-]+\.)?(?:rep\.)?googleapis\.com$/, 'gcp.vertex_ai'],
  [/(?:^|\.)cohere\.(?:com|ai)$/, 'cohere'],
  [/(?:^|\.)deepseek\.com$/, 'deepseek'],
  [/(?:^|\.)groq\.com$/, 'groq'],
  [/(?:^|\.)mistral\.ai$/, 'mistral_ai'],
  [/(?:^|\.)moonshot\.(?:ai|cn)$/, 'moonshot_ai'],
  [/(?:^|\.)perplexity\.ai$/, 'perplexity'],
  [/(?:^|\.)x\.ai$/, 'x_ai'],
  [/(?:^|\.)ml\.cloud\.ibm\.com$/, 'ibm.watsonx.ai'],
]

/** Returns `gen_ai.operation.name` of a request to the server of an offer. */
export function operationName({ task }: Pick<ChatJob, 'task'>, offer: Offer | null): string {
  if (task === 'completions') return 'text_completion'
  if (task === 'chat') return offer?.speaks?.[0] === 'gemini' ? 'generate_content' : 'chat'
  return task
}
