import * as z from 'zod'
import { CREDIT_WAIT_MS_MAX, features } from '../../base/domain/chat-job.ts'
import { dialects } from '../../base/domain/conversation.ts'
import { DAY_MS } from '../../base/domain/durations.ts'
import { standardTimeouts, THINKING_MS } from '../../base/domain/endpoint-defaults.ts'
import { type PayoutProviderName, payoutProviderNames } from '../../base/domain/money-drivers.ts'
import { keyHeaders, thinkingModes, toolCallIds } from '../../base/domain/offer.ts'
import { standardPriceLimits } from '../../base/domain/price-limits.ts'
import { providerSchemas } from '../../money/payments/payment-providers.ts'
import {
  addressRange,
  backupPlace,
  baseUrl,
  bodyField,
  contactUri,
  email,
  failpointList,
  flag,
  googleServiceAccount,
  headerList,
  hostName,
  hoursOfDay,
  httpUrl,
  issuerUrl,
  oneOf,
  percentAsBps,
  publicUrl,
  ratio,
  secret,
  text,
  timeOfDay,
  usdAmount,
  usdPerMillionTokens,
  weekdays,
  wholeNumber,
} from './values.ts'

const logFormats = ['auto', 'text', 'json'] as const
/** The samplers of OpenTelemetry. */
const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const
export type Sampler = (typeof samplers)[number]
/** Some mail services show and accept passwords in groups separated by blanks. */
const blanksWithin = /^\S(.*\S)?$/

/**
 * The environment variables. `loadConfig` reads no others, apart from `cloudKeyNames` and ${NAME} in the
 * file, and what `withSecretSources` reads in place of each.
 */
export const environmentSchema = z.object({
  HOST: text().optional(),
  PORT: wholeNumber(0, 65_535).optional(),
  METRICS_HOST: text().optional(),
  METRICS_PORT: wholeNumber(0, 65_535).optional(),
  DATABASE_URL: postgresUrl().optional(),
  DATABASE_DESK_URL: postgresUrl().optional(),
  DATABASE_OWNER_URL: postgresUrl().optional(),
  SWITCHYARD_DATA: text().prefault('./data'),
  SWITCHYARD_CONFIG: text().prefault('./switchyard.yaml'),
  // Several while a key is replaced: see base/secrets/master-key.ts.
  SWITCHYARD_MASTER_KEY: secret(
    '32 bytes as hex or base64',
    /^(?:[0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?)(?:[\s,]+(?:[0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?))*$/,
  ).optional(),
  SWITCHYARD_INIT_EMAIL: email().prefault('you@localhost'),
  SMTP_PASSWORD: secret('text', blanksWithin).optional(),
  LOG_LEVEL: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).optional(),
  LOG_FORMAT: oneOf(logFormats).optional(),
  // The names of OpenTelemetry. Its packages read further ones: docs/observability.md.
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl().optional(),
  OTEL_EXPORTER_OTLP_HEADERS: headerList().optional(),
  OTEL_SDK_DISABLED: text().optional(),
  OTEL_SERVICE_NAME: text().optional(),
  OTEL_TRACES_SAMPLER: oneOf(samplers).optional(),
  OTEL_TRACES_SAMPLER_ARG: ratio().optional(),
  // For crash tests; see docs/chaos.md.
  SWITCHYARD_FAILPOINTS: failpointList().optional(),
  // Set by systemd: see src/start/service-manager.ts.
  NOTIFY_SOCKET: text().optional(),
  WATCHDOG_USEC: wholeNumber(1, 86_400_000_000).optional(),
  // Read by Node to decide whether to colour text. Listed so that docs/config.md documents it.
  NO_COLOR: text().optional(),
})

/** The environment variables with keys and places of clouds that detection reads when `detect.cloud` is on. */
export const cloudKeyNames = [
  'OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'GEMINI_API_KEY',
  'MISTRAL_API_KEY',
  'GROQ_API_KEY',
  'DEEPSEEK_API_KEY',
  'TOGETHER_API_KEY',
  'FIREWORKS_API_KEY',
  'OPENROUTER_API_KEY',
  'AZURE_OPENAI_API_KEY',
  'AZURE_OPENAI_ENDPOINT',
  'AZURE_OPENAI_DEPLOYMENTS',
  'AWS_BEARER_TOKEN_BEDROCK',
  'AWS_REGION',
  'GOOGLE_VERTEX_LOCATION',
  'GOOGLE_APPLICATION_CREDENTIALS',
  'GOOGLE_VERTEX_PROJECT',
] as const
export type CloudKeyName = (typeof cloudKeyNames)[number]

const prices = {
  input: usdPerMillionTokens(),
  output: usdPerMillionTokens(),
  cache_read: usdPerMillionTokens().optional(),
  cache_write: usdPerMillionTokens().optional(),
  cache_write_long: usdPerMillionTokens().optional(),
  input_audio: usdPerMillionTokens().optional(),
  input_image: usdPerMillionTokens().optional(),
  output_audio: usdPerMillionTokens().optional(),
  output_image: usdPerMillionTokens().optional(),
  per_request_usd: usdAmount().optional(),
}

const priceList = z.strictObject({
  ...prices,
  steps: z.array(z.strictObject({ above_input_tokens: wholeNumber(1, 100_000_000), ...prices })).prefault([]),
  windows: z
    .array(z.strictObject({ days: z.array(oneOf(weekdays)).prefault([...weekdays]), hours: hoursOfDay(), ...prices }))
    .prefault([]),
})

const modelSchema = z.strictObject({
  // Reserved ids: `auto` lets routing choose the model, and `demo` is the built-in demo model.
  id: text('model id without blanks, not auto or demo', /^(?!(?:auto|demo)$)[^\s\p{C}]{1,200}$/u),
  upstream_model: text().optional(),
  enabled: flag().prefault('true'),
  price_per_million_usd: priceList,
  cost_per_million_usd: z.strictObject(prices).optional(),
  context_tokens: wholeNumber(1, 100_000_000).optional(),
  max_output_tokens: wholeNumber(1, 100_000_000).optional(),
  max_in_flight: wholeNumber(1, 1_000_000).optional(),
  weight: wholeNumber(1, 10_000).optional(),
  features: z.array(oneOf(features)).prefault(['tools', 'json_schema']),
  drop_fields: z.array(text()).prefault([]),
  exclusive_reasoning: flag().prefault('false'),
  thinking: oneOf(thinkingModes).prefault('adaptive'),
  speaks: dialectList().optional(),
})

const endpointSchema = z.strictObject({
  name: text('lower-case name: letters, digits, - _ and .', /^[a-z0-9][a-z0-9._-]{0,62}$/),
  kind: oneOf(['local', 'cloud']),
  enabled: flag().prefault('true'),
  base_url: baseUrl(),
  // The key becomes a header value, and every request would fail if a header could not contain it.
  api_key: secret('ASCII text without blanks', /^[\x21-\x7e]+$/).optional(),
  google_service_account: googleServiceAccount().optional(),
  aws_access_key_id: secret('ASCII text without blanks', /^[\x21-\x7e]+$/).optional(),
  aws_secret_access_key: secret('ASCII text without blanks', /^[\x21-\x7e]+$/).optional(),
  // May be empty, so that ${AWS_SESSION_TOKEN:-} suits keys with and without one.
  aws_session_token: secret('ASCII text without blanks', /^[\x21-\x7e]*$/).optional(),
  aws_region: text('region of AWS such as us-east-1', /^[a-z0-9-]{1,40}$/).optional(),
  monthly_budget_usd: usdAmount().optional(),
  weight: wholeNumber(1, 10_000).prefault('100'),
  key_header: oneOf(['auto', ...keyHeaders]).prefault('auto'),
  speaks: dialectList().prefault(['chat']),
  trace_context: flag().optional(),
  dialect: z
    .strictObject({
      max_tokens_field: oneOf(['max_tokens', 'max_completion_tokens']).prefault('max_tokens'),
      developer_to_system: flag().prefault('true'),
      stream_options: flag().prefault('true'),
      forward_fields: bodyFields(),
      drop_fields: z.array(text()).prefault([]),
      tool_call_ids: oneOf(toolCallIds).prefault('any'),
      hides_reasoning: flag().optional(),
      base64_embeddings: flag().prefault('true'),
    })
    .prefault({}),
  timeouts: z
    .strictObject({
      connect_ms: wholeNumber(1, DAY_MS).prefault(String(standardTimeouts.connectMs)),
      first_token_ms: wholeNumber(1, DAY_MS).prefault(String(standardTimeouts.firstTokenMs)),
      token_ms: wholeNumber(0, DAY_MS).prefault(String(standardTimeouts.tokenMs)),
      thinking_ms: wholeNumber(1, DAY_MS).prefault(String(THINKING_MS)),
      idle_ms: wholeNumber(1, DAY_MS).prefault(String(standardTimeouts.idleMs)),
      total_ms: wholeNumber(1, DAY_MS).prefault(String(standardTimeouts.totalMs)),
    })
    .prefault({}),
  model_rules: z
    .array(
      z.strictObject({
        match: text(),
        except: z.array(text()).prefault([]),
        price_list: text().optional(),
        price_percent: wholeNumber(1, 100_000).prefault('100'),
        action: oneOf(['propose', 'apply']).prefault('propose'),
      }),
    )
    .prefault([]),
  models: z.array(modelSchema).min(1, 'is empty; list at least one model with its price'),
})

const providerFields = providerSchemas({ secret, flag, httpUrl })
/** Whether each provider pays hosters. */
const payoutFlags = Object.fromEntries(payoutProviderNames.map(name => [name, flag().prefault('false')])) as Record<
  PayoutProviderName,
  z.ZodPrefault<ReturnType<typeof flag>>
>

/** The schema of `switchyard.yaml`. The default of every optional key is defined here and nowhere else. */
export const fileSchema = z.strictObject({
  server: z
    .strictObject({
      host: text().prefault('127.0.0.1'),
      port: wholeNumber(0, 65_535).prefault('8080'),
      public_base_url: publicUrl().optional(),
      allowed_hosts: z.array(hostName()).prefault([]),
      trusted_proxies: z.array(addressRange()).prefault([]),
      workers: wholeNumber(1, 64).prefault('1'),
      drain_delay_seconds: wholeNumber(0, 3_600).prefault('5'),
      drain_seconds: wholeNumber(0, 86_400).prefault('300'),
      max_in_flight: wholeNumber(1, 1_000_000).prefault('2000'),
      max_connections: wholeNumber(1, 1_000_000).optional(),
      body_limit_bytes: wholeNumber(1_024, 1_073_741_824).prefault('16777216'),
      memory_budget_bytes: wholeNumber(1_048_576, 1_099_511_627_776).optional(),
      ping_seconds: wholeNumber(1, 3_600).prefault('10'),
    })
    .prefault({}),
  account_tiers: z
    .object({
      free: tier('20', '1000', '5.00'),
      standard: tier('300', '50000', '100.00'),
      scale: tier('3000', '1000000', '5000.00'),
    })
    .catchall(
      z.strictObject({
        requests_per_minute: wholeNumber(1, 1_000_000_000),
        requests_per_day: wholeNumber(1, 1_000_000_000),
        daily_spend_cap_usd: usdAmount(),
      }),
    )
    .prefault({}),
  signup: z.strictObject({ credit_usd: usdAmount().prefault('5.00'), tier: text().prefault('free') }).prefault({}),
  accounts: z
    .strictObject({
      sign_up: oneOf(['closed', 'invite', 'open']).prefault('invite'),
      credits_per_network_per_day: wholeNumber(0, 1_000_000).prefault('3'),
      credits_per_region_percent: wholeNumber(1, 100).prefault('10'),
      credits_per_day: wholeNumber(0, 1_000_000).prefault('100'),
      oidc: z
        .array(
          z.strictObject({
            id: text('lower-case letters, digits and hyphens', /^[a-z0-9][a-z0-9-]{0,31}$/),
            name: text(),
            issuer: issuerUrl(),
            client_id: text(),
            client_secret: secret('text', blanksWithin).optional(),
            scopes: text().prefault('openid email profile'),
            groups: z
              .strictObject({
                claim: text().prefault('groups'),
                operators: z.array(text()).prefault([]),
                auditors: z.array(text()).prefault([]),
                hours: wholeNumber(1, 720).prefault('12'),
              })
              .prefault({}),
          }),
        )
        .prefault([]),
    })
    .prefault({}),
  payments: z
    .strictObject({
      min_usd: usdAmount().prefault('5.00'),
      max_usd: usdAmount().prefault('1000.00'),
      manual: z.strictObject({ instructions: text().optional() }).prefault({}),
      ...providerFields,
    })
    .prefault({}),
  payouts: z
    .strictObject({
      hold_days: wholeNumber(0, 365).prefault('14'),
      min_usd: usdAmount().prefault('25.00'),
      promotion_hold_days: wholeNumber(1, 365).prefault('30'),
      promotion_hoster_day_usd: usdAmount().prefault('1.00'),
      promotion_day_usd: usdAmount().prefault('20.00'),
      promotion_needs_payers: flag().prefault('true'),
      account_wait_hours: wholeNumber(0, 8760).prefault('72'),
      ...payoutFlags,
    })
    .prefault({}),
  platform: z.strictObject({ fee_percent: percentAsBps().prefault('20') }).prefault({}),
  models: z.strictObject({ default_max_tokens: wholeNumber(1, 100_000_000).prefault('4096') }).prefault({}),
  limits: z.strictObject({ wait_for_credit_ms: wholeNumber(0, CREDIT_WAIT_MS_MAX).prefault('5000') }).prefault({}),
  demo: z
    .strictObject({
      enabled: flag().prefault('true'),
      tokens_per_second: wholeNumber(1, 1_000_000).prefault('40'),
      first_token_ms: wholeNumber(0, 60_000).prefault('150'),
      price_per_million_usd: pricesOr('0.10', '0.40'),
    })
    .prefault({}),
  detect: z
    .strictObject({
      enabled: flag().prefault('true'),
      local_price_per_million_usd: pricesOr('0.10', '0.40'),
      ports: z.array(wholeNumber(1, 65_535)).prefault([]),
      repeat_seconds: wholeNumber(0, 86_400).prefault('30'),
      cloud: flag().prefault('true'),
    })
    .prefault({}),
  chat: z
    .strictObject({
      forward_fields: z.strictObject({ local: bodyFields(), hoster: bodyFields(), cloud: bodyFields() }).prefault({}),
    })
    .prefault({}),
  endpoints: z.array(endpointSchema).prefault([]),
  routing: z
    .strictObject({
      cloud_competes: flag().prefault('false'),
      balanced_price_percent: wholeNumber(100, 100_000).prefault(String(standardPriceLimits.balancedPercent)),
      fastest_price_percent: wholeNumber(100, 100_000).prefault(String(standardPriceLimits.fastestPercent)),
      local_price_percent: wholeNumber(100, 100_000).prefault(String(standardPriceLimits.localPercent)),
      attempts_max: wholeNumber(1, 20).prefault('3'),
      auto: z
        .strictObject({
          model_file: text().optional(),
          models: z
            .array(
              z.strictObject({
                id: text(),
                quality: z.strictObject({
                  general: percentAsBps(),
                  code: percentAsBps().optional(),
                  math: percentAsBps().optional(),
                  vision: percentAsBps().optional(),
                  tools: percentAsBps().optional(),
                  long: percentAsBps().optional(),
                }),
              }),
            )
            .prefault([]),
          quality_floor_percent: percentAsBps().prefault('70'),
          cost_weight_percent: percentAsBps().prefault('30'),
          explore_percent: percentAsBps().prefault('0'),
        })
        .prefault({}),
      newcomers: z
        .strictObject({
          successes: wholeNumber(0, 1_000_000).prefault('200'),
          payers: wholeNumber(1, 1_000).prefault('3'),
          in_flight: wholeNumber(0, 1_000_000).prefault('5'),
          usd_per_day: usdAmount().prefault('20.00'),
        })
        .prefault({}),
    })
    .prefault({}),
  trust: z
    .strictObject({
      audits: flag().prefault('true'),
      audit_minutes: wholeNumber(1, 1_440).prefault('10'),
      shadow_seconds: wholeNumber(0, 86_400).prefault('20'),
      evidence_delay_minutes: wholeNumber(1, 1_440).prefault('15'),
      references: z.array(text()).optional(),
      canaries_file: text().optional(),
      corpus_file: text().optional(),
    })
    .prefault({}),
  hosters: z
    .strictObject({
      allow_private_urls: flag().prefault('false'),
      applications: oneOf(['open', 'closed']).prefault('open'),
      approval: oneOf(['operator', 'automatic']).prefault('operator'),
      max_price_per_million_usd: pricesOr('100', '400'),
      price_change_minutes: wholeNumber(0, 100_000).prefault('10'),
      price_rise_percent: wholeNumber(0, 10_000).prefault('20'),
      price_rise_notice_hours: wholeNumber(0, 10_000).prefault('24'),
    })
    .prefault({}),
  alerts: z.strictObject({ allow_private_urls: flag().prefault('false') }).prefault({}),
  audit: z.strictObject({ keep_addresses_days: wholeNumber(30, 3_650).prefault('365') }).prefault({}),
  alarms: z
    .strictObject({
      mail: flag().prefault('true'),
      // Its query may be what the receiver knows the gateway by.
      webhook_url: secret('http or https URL', /^https?:\/\/[^\s#]+$/).optional(),
      webhook_secret: secret('whsec_ and base64', /^whsec_[A-Za-z0-9+/]{32,}={0,2}$/).optional(),
      backup_days: wholeNumber(0, 3_650).prefault('7'),
    })
    .prefault({}),
  backup: z
    .strictObject({
      to: backupPlace().optional(),
      s3: z
        .strictObject({
          endpoint: httpUrl().optional(),
          region: text().prefault('us-east-1'),
          access_key_id: secret('text', /^\S+$/).optional(),
          secret_access_key: secret('text', /^\S+$/).optional(),
          path_style: flag().prefault('true'),
        })
        .prefault({}),
      every_hours: wholeNumber(1, 24).prefault('24'),
      at: timeOfDay().prefault('03:15'),
      keep_days: wholeNumber(1, 3_650).prefault('7'),
      keep_weeks: wholeNumber(0, 520).prefault('4'),
      alarm_after_hours: wholeNumber(1, 8_760).prefault('48'),
      test_restore_days: wholeNumber(0, 365).prefault('7'),
      test_directory: text().optional(),
      include_secrets: flag().prefault('false'),
    })
    .prefault({}),
  usage: z
    .strictObject({
      keep_months: wholeNumber(1, 1_200).optional(),
      archive_directory: text().optional(),
      export_to: backupPlace().optional(),
      export_format: oneOf(['parquet', 'jsonl']).prefault('parquet'),
    })
    .prefault({}),
  security: z.strictObject({ contact: contactUri().optional() }).prefault({}),
  status: z.strictObject({ public: flag().prefault('false'), server_names: flag().prefault('false') }).prefault({}),
  smtp: z
    .strictObject({
      host: text().optional(),
      port: wholeNumber(1, 65_535).prefault('587'),
      security: oneOf(['starttls', 'tls', 'none']).prefault('starttls'),
      user: text().optional(),
      password: secret('text', blanksWithin).optional(),
      from: text().prefault('Switchyard <switchyard@localhost>'),
    })
    .prefault({}),
  metrics: z
    .strictObject({
      enabled: flag().prefault('true'),
      host: text().prefault('127.0.0.1'),
      port: wholeNumber(0, 65_535).prefault('9464'),
    })
    .prefault({}),
  access_log: z
    .strictObject({
      format: oneOf(['off', 'json', 'short']).prefault('off'),
      sample_percent: wholeNumber(0, 100).prefault('100'),
      file: text().optional(),
    })
    .prefault({}),
  telemetry: z
    .strictObject({
      endpoint: httpUrl().optional(),
      headers: headerList().optional(),
      service_name: text().prefault('switchyard'),
      traces: flag().prefault('true'),
      metrics: flag().prefault('true'),
      sample_percent: percentAsBps().prefault('100'),
      follow_parent: flag().prefault('true'),
      metrics_seconds: wholeNumber(1, 3_600).prefault('60'),
    })
    .prefault({}),
  content: z
    .strictObject({
      allow_recording: flag().prefault('false'),
      retention_days: wholeNumber(1, 3_650).prefault('30'),
    })
    .prefault({}),
  reports: z.strictObject({ requests_per_minute: wholeNumber(1, 1_000_000).prefault('120') }).prefault({}),
  postgres: z
    .strictObject({
      money_connections: wholeNumber(1, 1_000).prefault('6'),
      general_connections: wholeNumber(2, 1_000).prefault('8'),
    })
    .prefault({}),
  cells: z
    .strictObject({
      name: cellName().optional(),
      secret: secret('text of at least 32 characters without blanks', /^\S{32,}$/).optional(),
      peers: z
        .array(z.strictObject({ name: cellName(), url: httpUrl(), database_url: postgresUrl().optional() }))
        .prefault([]),
    })
    .prefault({}),
  settlement: oneOf(['journal', 'commit']).prefault('journal'),
  journal: z
    .strictObject({
      fsync: flag().prefault('false'),
      max_bytes: wholeNumber(1_048_576, 1_099_511_627_776).prefault('268435456'),
    })
    .prefault({}),
  log: z
    .strictObject({
      level: oneOf(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).prefault('info'),
      format: oneOf(logFormats).prefault('auto'),
    })
    .prefault({}),
})

export type FileSettings = z.output<typeof fileSchema>
export type EndpointSettings = FileSettings['endpoints'][number]

function bodyFields() {
  return z.array(bodyField()).prefault([])
}

function dialectList() {
  return z.array(oneOf(dialects)).min(1, 'is empty; list at least one dialect')
}

function tier(perMinute: string, perDay: string, capUsd: string) {
  return z
    .strictObject({
      requests_per_minute: wholeNumber(1, 1_000_000_000).prefault(perMinute),
      requests_per_day: wholeNumber(1, 1_000_000_000).prefault(perDay),
      daily_spend_cap_usd: usdAmount().prefault(capUsd),
    })
    .prefault({})
}

function cellName() {
  return text('lower-case letters, digits and hyphens', /^[a-z0-9][a-z0-9-]{0,19}$/)
}

function postgresUrl() {
  return secret('postgres:// or postgresql:// URL', /^postgres(ql)?:\/\/\S+$/)
}

function pricesOr(input: string, output: string) {
  return z
    .strictObject({ input: usdPerMillionTokens().prefault(input), output: usdPerMillionTokens().prefault(output) })
    .prefault({})
}
