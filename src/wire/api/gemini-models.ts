import { z } from 'zod'
import { serves } from '../../base/domain/offer.ts'
import type { ListedModel } from './models.ts'

const example = {
  name: 'models/llama-3.3-70b',
  displayName: 'llama-3.3-70b',
  inputTokenLimit: 131072,
  outputTokenLimit: 8192,
  supportedGenerationMethods: ['generateContent', 'streamGenerateContent', 'countTokens'],
}

/** Google's model object. */
export const geminiModel = z
  .object({
    name: z.string().describe('`models/` and the id of the model, which may contain slashes.'),
    displayName: z.string(),
    inputTokenLimit: z.int().positive().describe('Largest context of any server that offers the model.'),
    outputTokenLimit: z.int().positive().describe('Largest number of output tokens.'),
    supportedGenerationMethods: z.array(z.string()),
  })
  .meta({ id: 'GeminiModel', examples: [example] })

export const geminiModelPage = z
  .object({
    models: z.array(geminiModel),
    nextPageToken: z.string().optional().describe('Send it as `pageToken` to get the next page.'),
  })
  .meta({ id: 'GeminiModelPage', examples: [{ models: [example] }] })

const PAGE_SIZE = 50
const PAGE_SIZE_MAX = 1000

const pageSizeText = 'must be a whole number from 1 on in plain digits, such as 50'

/** The query of a list of models. */
export const geminiPageQuery = z.object({
  pageSize: z
    .preprocess(
      // A larger number is lowered rather than refused, as at Google.
      value => (typeof value === 'string' && /^[1-9]\d*$/.test(value) ? Math.min(Number(value), PAGE_SIZE_MAX) : value),
      z.int(pageSizeText).min(1, pageSizeText),
    )
    .default(PAGE_SIZE)
    .describe('Models per page; more than 1000 are 1000.'),
  pageToken: z.string().max(1000).optional().describe('The `nextPageToken` of the page before.'),
})

interface PageQuery {
  readonly pageSize: number
  /** The last id of the page before; undefined for the first page. */
  readonly pageToken: string | undefined
}

/** Returns one page of the models as Google lists them, ordered by id. */
export function listGeminiModels(
  listed: Iterable<ListedModel>,
  { pageSize, pageToken }: PageQuery,
): z.infer<typeof geminiModelPage> {
  const rest = [...listed]
    .filter(({ id }) => pageToken === undefined || id > pageToken)
    .sort((a, b) => (a.id < b.id ? -1 : 1))
  const page = rest.slice(0, pageSize)
  const last = page.at(-1)
  return { models: page.map(showGeminiModel), ...(rest.length > pageSize && last && { nextPageToken: last.id }) }
}

export function showGeminiModel(listed: ListedModel): z.infer<typeof geminiModel> {
  const { id, contextTokens, maxOutputTokens } = listed
  return {
    name: `models/${id}`,
    displayName: id,
    inputTokenLimit: contextTokens,
    outputTokenLimit: maxOutputTokens,
    supportedGenerationMethods: [
      ...(serves(listed, 'chat') ? chatMethods : []),
      ...(serves(listed, 'embeddings') ? embeddingsMethods : []),
    ],
  }
}

const chatMethods = ['generateContent', 'streamGenerateContent', 'countTokens']
const embeddingsMethods = ['embedContent', 'batchEmbedContents']
