import type { Dialect } from '../../../base/domain/conversation.ts'
import { standardQuirks } from '../../../base/domain/endpoint-defaults.ts'
import type { UpstreamQuirks } from '../../../base/domain/offer.ts'
import { readServiceAccount } from '../../../wire/credentials/read-service-account.ts'
import { type CloudModel, type CloudPreset, type CloudPrices, cloudPresets } from './cloud-presets.ts'

type Environment = Readonly<Record<string, string | undefined>>

/** A cloud with an address that depends on the operator's account or region. */
export interface RegionalPreset {
  /** See CloudPreset. */
  readonly name: string
  /** Unless it is set, nothing is detected. */
  readonly keyVariable: string
  /** Matches the hosts of this cloud. */
  readonly hosts: RegExp
  /** The address to show while the environment is incomplete. */
  readonly exampleUrl: string
  /** Which key its servers need. */
  readonly secret: 'api_key' | 'google_service_account'
  readonly dialect: UpstreamQuirks
  readonly speaks?: readonly Dialect[]
  /** Variables with which `preset` knows the models; null: they depend on the account. */
  readonly exampleEnvironment: Environment | null
  /** Returns the cloud that the environment describes. Throws Error that says which variable is wrong and why. */
  preset(environment: Environment): CloudPreset
}

const azureDialect: UpstreamQuirks = { ...presetOf('openai').dialect, keyHeader: 'api-key' }
const bedrockClaudeDialect: UpstreamQuirks = { ...standardQuirks, keyHeader: 'x-api-key' }
const vertexDialect: UpstreamQuirks = { ...standardQuirks, hidesReasoning: true }

/** The address that a preset builds of it is not used. */
const exampleRegion: Environment = { AWS_REGION: 'us-east-1' }

export const regionalPresets: readonly RegionalPreset[] = [
  {
    name: 'azure',
    keyVariable: 'AZURE_OPENAI_API_KEY',
    hosts: /[.]azure[.](com|us)$/,
    exampleUrl: 'https://NAME.openai.azure.com/openai/v1',
    secret: 'api_key',
    dialect: azureDialect,
    speaks: ['chat'],
    exampleEnvironment: null,
    preset: azure,
  },
  {
    name: 'bedrock',
    keyVariable: 'AWS_BEARER_TOKEN_BEDROCK',
    hosts: /^bedrock-runtime[.]/,
    exampleUrl: 'https://bedrock-runtime.REGION.amazonaws.com/openai/v1',
    secret: 'api_key',
    dialect: standardQuirks,
    exampleEnvironment: exampleRegion,
    preset: bedrock,
  },
  {
    name: 'bedrock-claude',
    keyVariable: 'AWS_BEARER_TOKEN_BEDROCK',
    hosts: /^bedrock-mantle[.]/,
    exampleUrl: 'https://bedrock-mantle.REGION.api.aws/anthropic/v1',
    secret: 'api_key',
    dialect: bedrockClaudeDialect,
    speaks: ['messages'],
    exampleEnvironment: exampleRegion,
    preset: bedrockClaude,
  },
  {
    name: 'vertex',
    // GOOGLE_APPLICATION_CREDENTIALS alone is set on many machines for other programs.
    keyVariable: 'GOOGLE_VERTEX_LOCATION',
    hosts: /(^|[-.])aiplatform([.][\w-]+[.]rep)?[.]googleapis[.]com$/,
    exampleUrl: 'https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION',
    secret: 'google_service_account',
    dialect: vertexDialect,
    speaks: ['gemini'],
    exampleEnvironment: null,
    preset: vertex,
  },
]

const PREMIUM_PERCENT = 110

/** Azure sells the models of OpenAI at the same prices, under the names of deployments. */
function azure(environment: Environment): CloudPreset {
  const { models } = presetOf('openai')
  const url = requireVariable(
    environment,
    'AZURE_OPENAI_ENDPOINT',
    /^https:\/\/[\w.-]+\/*$/,
    'https://NAME.openai.azure.com',
  )
  const written = requireVariable(
    environment,
    'AZURE_OPENAI_DEPLOYMENTS',
    /\S/,
    'gpt-5.6-sol,gpt-5.6-luna=my-deployment',
  )
  const deployments = written.split(',').flatMap(each => {
    const [modelId = '', deployment = modelId] = each.split('=').map(part => part.trim())
    return modelId === '' ? [] : [[modelId, deployment] as const]
  })
  return {
    name: 'azure',
    keyVariable: 'AZURE_OPENAI_API_KEY',
    baseUrl: `${new URL(url).origin}/openai/v1`,
    dialect: azureDialect,
    models: deployments.map(([modelId, upstreamModel]) => {
      const model = models.find(each => each.modelId === modelId)
      if (model === undefined)
        throw new Error(
          `AZURE_OPENAI_DEPLOYMENTS names ${modelId}, which has no known price; declare it in switchyard.yaml`,
        )
      return { ...model, upstreamModel }
    }),
  }
}

/** Open models of OpenAI. Requests stay in the region. */
function bedrock(environment: Environment): CloudPreset {
  const limits = { contextTokens: 131_072, maxOutputTokens: 65_536, features: ['tools'] as const }
  return {
    name: 'bedrock',
    keyVariable: 'AWS_BEARER_TOKEN_BEDROCK',
    baseUrl: `https://bedrock-runtime.${awsRegion(environment)}.amazonaws.com/openai/v1`,
    dialect: standardQuirks,
    models: [
      {
        modelId: 'openai/gpt-oss-120b',
        upstreamModel: 'openai.gpt-oss-120b-1:0',
        prices: { input: '0.15', output: '0.6' },
        ...limits,
      },
      {
        modelId: 'openai/gpt-oss-20b',
        upstreamModel: 'openai.gpt-oss-20b-1:0',
        prices: { input: '0.07', output: '0.3' },
        ...limits,
      },
    ],
  }
}

/** Anthropic's models in one region, which costs a tenth more. This API refuses JSON schemas. */
function bedrockClaude(environment: Environment): CloudPreset {
  return {
    name: 'bedrock-claude',
    keyVariable: 'AWS_BEARER_TOKEN_BEDROCK',
    baseUrl: `https://bedrock-mantle.${awsRegion(environment)}.api.aws/anthropic/v1`,
    dialect: bedrockClaudeDialect,
    speaks: ['messages'],
    models: presetOf('anthropic')
      .models.filter(({ modelId }) => onMantle.has(modelId))
      .map(model => ({
        ...withPremium(withoutSchemas(model)),
        upstreamModel: `anthropic.${model.modelId}`,
      })),
  }
}

const onMantle: ReadonlySet<string> = new Set(['claude-opus-5', 'claude-sonnet-5', 'claude-haiku-4-5'])

/**
 * Gemini, and Claude where it was enabled in the Model Garden. Outside of `global`, a tenth more is charged. Claude
 * gets no JSON schemas: a policy of Google's organisations forbids them by default.
 */
function vertex(environment: Environment): CloudPreset {
  const location = requireVariable(environment, 'GOOGLE_VERTEX_LOCATION', /^[a-z0-9-]{1,40}$/, 'global')
  const written = requireVariable(environment, 'GOOGLE_APPLICATION_CREDENTIALS', /\S/, '/path/of/key.json')
  const credential = accountIn(written)
  const project = environment.GOOGLE_VERTEX_PROJECT?.trim() || credential.projectId
  if (project === null || !/^[a-z0-9:.-]{1,100}$/.test(project))
    throw new Error('GOOGLE_VERTEX_PROJECT must be the id of a project; the key names none')
  const claude = presetOf('anthropic').models.map(
    (model): CloudModel => ({
      ...withoutSchemas(model),
      speaks: ['messages'],
      ...(model.modelId === 'claude-haiku-4-5' && { upstreamModel: 'claude-haiku-4-5@20251001' }),
    }),
  )
  const models = [...presetOf('gemini').models, ...claude]
  return {
    name: 'vertex',
    keyVariable: 'GOOGLE_VERTEX_LOCATION',
    baseUrl: `https://${vertexHost(location)}/v1/projects/${project}/locations/${location}`,
    credential,
    dialect: vertexDialect,
    speaks: ['gemini'],
    models: location === 'global' ? models : models.map(withPremium),
  }
}

function vertexHost(location: string): string {
  if (location === 'global') return 'aiplatform.googleapis.com'
  if (location === 'us' || location === 'eu') return `aiplatform.${location}.rep.googleapis.com`
  return `${location}-aiplatform.googleapis.com`
}

function accountIn(written: string) {
  try {
    return readServiceAccount(written)
  } catch (error) {
    throw new Error(`GOOGLE_APPLICATION_CREDENTIALS ${(error as Error).message}`)
  }
}

function awsRegion(environment: Environment): string {
  return requireVariable(environment, 'AWS_REGION', /^[a-z]{2}(-[a-z]+)+-\d$/, 'us-east-1')
}

function requireVariable(environment: Environment, name: string, allowed: RegExp, example: string): string {
  const value = environment[name]?.trim() ?? ''
  if (allowed.test(value)) return value
  throw new Error(
    value === '' ? `${name} is not set; for example ${example}` : `${name} is invalid; write for example ${example}`,
  )
}

function presetOf(name: string): CloudPreset {
  return cloudPresets.find(preset => preset.name === name)!
}

function withoutSchemas(model: CloudModel): CloudModel {
  return { ...model, features: model.features.filter(feature => feature !== 'json_schema') }
}

function withPremium(model: CloudModel): CloudModel {
  const { prices, longPrompts } = model
  return {
    ...model,
    prices: raised(prices),
    ...(longPrompts && { longPrompts: { ...raised(longPrompts), aboveInputTokens: longPrompts.aboveInputTokens } }),
  }
}

function raised({ input, output, cacheRead, cacheWrite }: CloudPrices): CloudPrices {
  return {
    input: raise(input),
    output: raise(output),
    ...(cacheRead !== undefined && { cacheRead: raise(cacheRead) }),
    ...(cacheWrite !== undefined && { cacheWrite: raise(cacheWrite) }),
  }
}

/** Digit by digit: prices have at most four decimals, and the result at most six. */
function raise(usd: string): string {
  const [whole = '', decimals = ''] = usd.split('.')
  const raisedMicros = (BigInt(whole + decimals.padEnd(4, '0')) * BigInt(PREMIUM_PERCENT)).toString().padStart(7, '0')
  return `${raisedMicros.slice(0, -6)}.${raisedMicros.slice(-6)}`
}
