import { readFileSync } from 'node:fs'
import { normalize, resolve } from 'node:path'
import type * as z from 'zod'
import { type AutoSettings, taskClasses } from '../../base/domain/auto-table.ts'
import type { BackupPlan } from '../../base/domain/backup-plan.ts'
import type { AccountLimits } from '../../base/domain/caller.ts'
import type { Nanos, TokenPrice } from '../../base/domain/money.ts'
import type { ProviderKind } from '../../base/domain/offer.ts'
import type { OwnCanary } from '../../base/domain/own-canary.ts'
import type { PriceLimits } from '../../base/domain/price-limits.ts'
import type { TelemetrySettings } from '../../base/domain/telemetry-settings.ts'
import type { AddressRange } from '../../base/runtime/client-address.ts'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import type { ArmedFailpoint } from '../../base/runtime/failpoint.ts'
import type { JsonObject } from '../../base/runtime/json-object.ts'
import { keyPath } from '../../base/runtime/key-path.ts'
import { type ProviderOptions, readProviders } from '../../money/payments/payment-providers.ts'
import { type PayoutOptions, payoutOptions } from '../../money/payouts/create-payout-drivers.ts'
import { type CellSettings, cellSettings } from './cell-settings.ts'
import { readAutoTable } from './read-auto-table.ts'
import { backupPlan, backupProblems } from './read-backup.ts'
import { readCanaries } from './read-canaries.ts'
import { readCorpus } from './read-corpus.ts'
import { readSettings } from './read-settings.ts'
import { type UsageSettings, usageProblems, usageSettings } from './read-usage.ts'
import { type ConfigProblem, readYaml, withPlainNumbers } from './read-yaml.ts'
import { priceOf, runTimeSettings } from './run-time-settings.ts'
import {
  type CloudKeyName,
  cloudKeyNames,
  type EndpointSettings,
  environmentSchema,
  type FileSettings,
} from './schema.ts'
import { type Environment, isSet, variablesIn, withSecretSources } from './secret-sources.ts'
import { foreignVariables, telemetrySettings } from './telemetry-settings.ts'

/** The whole configuration, read once and deeply frozen. */
export interface Config {
  /** The path of the file that was read; null when there is none at the default path. */
  readonly configFile: string | null
  /** What the file says, with numbers as in JSON and variables of the environment replaced. */
  readonly written: JsonObject
  /** Absolute path. */
  readonly dataDir: string
  /** Null selects the embedded PostgreSQL in the data directory. */
  readonly databaseUrl: string | null
  /** The same database with the role that owns its tables; null: `databaseUrl` has it. */
  readonly databaseOwnerUrl: string | null
  /** The same database with the role that signs people in and books payments; null: the role of `databaseUrl` does. */
  readonly databaseDeskUrl: string | null
  /** 32 bytes as hex or base64; null: the key is in the data directory. */
  readonly masterKey: string | null
  /** E-mail of the operator's own customer, which the first start creates. */
  readonly initEmail: string
  readonly log: FileSettings['log']
  readonly server: {
    readonly host: string
    /** 0 lets the system choose. */
    readonly port: number
    /** Without a trailing slash and without `/v1`; null: derived from host and port. */
    readonly publicBaseUrl: string | null
    /** Names in the Host header besides those of the machine and of `publicBaseUrl`. */
    readonly allowedHosts: readonly string[]
    /** Proxies that write the address of the client into X-Forwarded-For. */
    readonly trustedProxies: readonly AddressRange[]
    /** Number of nodes that share the port, each a separate process. 1 means that this process is the only node. */
    readonly workers: number
    /** How long requests are still served after SIGTERM, while `/readyz` answers 503. */
    readonly drainDelaySeconds: number
    readonly drainSeconds: number
    readonly maxInFlight: number
    /** Null: derived from the descriptor limit. */
    readonly maxConnections: number | null
    readonly bodyLimitBytes: number
    /** Memory for request bodies and answers of one node; null: a quarter of the memory limit. */
    readonly memoryBudgetBytes: number | null
    readonly pingSeconds: number
  }
  /** How long a request may wait for credit that running requests of its customer hold, ms. */
  readonly limits: { readonly creditWaitMs: number }
  readonly accountTiers: Readonly<Record<string, AccountLimits>>
  readonly signup: { readonly creditNanos: Nanos; readonly tier: string }
  /** How people get accounts. `open` needs a mail server. */
  readonly accounts: {
    readonly signUp: FileSettings['accounts']['sign_up']
    readonly creditsPerNetworkPerDay: number
    readonly creditsPerRegionPercent: number
    readonly creditsPerDay: number
    /** Other services that people sign in with. */
    readonly oidc: readonly {
      readonly id: string
      readonly name: string
      readonly issuer: string
      readonly clientId: string
      /** Null: a public client, which PKCE protects. */
      readonly clientSecret: string | null
      /** Separated by blanks. */
      readonly scopes: string
      /** Which groups of the service have a role on the installation. */
      readonly groups: {
        /** The claim that names the groups of a person. */
        readonly claim: string
        readonly operators: readonly string[]
        readonly auditors: readonly string[]
        /** How long a role lasts after a sign-in. */
        readonly hours: number
      }
    }[]
  }
  /** How credit is bought. */
  readonly payments: ProviderOptions & {
    /** The limits of one top-up. */
    readonly topUpMinNanos: Nanos
    readonly topUpMaxNanos: Nanos
    /** What the payer of a manual payment must do; null: there are none. */
    readonly instructions: string | null
  }
  /** How hosters are paid. */
  readonly payouts: PayoutOptions & {
    /** How old a request must be before its share is paid out. */
    readonly holdDays: number
    /** Less is not paid out. */
    readonly minNanos: Nanos
    /** The budget for what promotion credit pays to hosters: see PromotionRules. */
    readonly promotion: {
      readonly holdDays: number
      readonly hosterDayNanos: Nanos
      readonly dayNanos: Nanos
      readonly needsPayers: boolean
    }
    /** How long a change of where money goes waits. */
    readonly accountWaitHours: number
  }
  /** The hoster's share of each charge in basis points: the rest after the platform's fee. */
  readonly platform: { readonly hosterShareBps: number }
  readonly models: { readonly defaultMaxTokens: number }
  readonly demo: {
    readonly enabled: boolean
    readonly tokensPerSecond: number
    readonly firstTokenMs: number
    readonly price: TokenPrice
  }
  readonly detect: {
    readonly enabled: boolean
    readonly localPrice: TokenPrice
    /** Ports of this machine to look at besides the default ones of model servers. */
    readonly ports: readonly number[]
    /** How often local servers are asked for their models again; 0 for never. */
    readonly repeatSeconds: number
    readonly cloud: boolean
    /** The cloud keys found in the environment. */
    readonly cloudKeys: Readonly<Partial<Record<CloudKeyName, string>>>
  }
  /** Body fields of chat requests that servers of a kind get besides the usual ones. */
  readonly chat: { readonly forwardFields: Readonly<Record<ProviderKind, readonly string[]>> }
  /** The endpoints of the file; `configuredOffers` turns them into offers. */
  readonly endpoints: readonly EndpointSettings[]
  /** Audits of hosters: whether they are sent, and the mean pause between those of one endpoint. */
  readonly trust: {
    readonly audits: boolean
    readonly auditMinutes: number
    /** The least time between two answers of an endpoint to customers that are compared. 0: none are. */
    readonly shadowSeconds: number
    /** How long after its start a request counts. */
    readonly evidenceDelayMinutes: number
    /** Names of clouds that serve the true models; local servers always count. Null: all clouds. */
    readonly references: readonly string[] | null
    /** Prompts of the operator; empty without `trust.canaries_file`. */
    readonly canaries: readonly OwnCanary[]
    /** Texts that prompts are modelled on; empty without `trust.corpus_file`. */
    readonly corpus: readonly string[]
  }
  readonly routing: {
    readonly cloudCompetes: boolean
    readonly priceLimits: PriceLimits
    readonly attemptsMax: number
    /** How `auto` chooses the model. */
    readonly auto: AutoSettings
    /** The limits of hosters' offers with fewer answers than `successes`. */
    readonly newcomers: {
      readonly successes: number
      readonly payers: number
      readonly inFlight: number
      readonly nanosPerDay: Nanos
    }
  }
  readonly hosters: {
    readonly allowPrivateUrls: boolean
    /** Whether signed-in people may apply as hosters. */
    readonly applications: 'open' | 'closed'
    /** Whether a verified hoster waits for an operator. */
    readonly approval: 'operator' | 'automatic'
    readonly priceRules: {
      /** The highest prices of a hoster. */
      readonly max: TokenPrice
      /** The least time between two changes of prices. */
      readonly changeIntervalMs: number
      /** A rise of more than this needs the notice. */
      readonly risePercent: number
      readonly riseNoticeMs: number
    }
  }
  readonly alerts: { readonly allowPrivateUrls: boolean }
  /** Of the audit log. */
  readonly audit: { readonly keepAddressesDays: number }
  /** How operators are notified of alarms. Without a backup in `backupDays` there is one; 0: never. */
  readonly alarms: {
    readonly mail: boolean
    readonly webhookUrl: string | null
    readonly webhookSecret: string | null
    readonly backupDays: number
  }
  /** How the gateway backs itself up; null: it does not. */
  readonly backup: BackupPlan | null
  readonly usage: UsageSettings
  /** Whether everybody may see the status page, and whether it names the servers. */
  /** The address for reports of leaked keys and vulnerabilities; null: none. */
  readonly security: { readonly contact: string | null }
  readonly status: { readonly isPublic: boolean; readonly showsNames: boolean }
  /** Mails are logged instead of sent when `host` is null. */
  readonly smtp: {
    readonly host: string | null
    readonly port: number
    readonly security: FileSettings['smtp']['security']
    readonly user: string | null
    readonly password: string | null
    readonly from: string
  }
  /** Where GET /metrics is served; port 0 lets the system choose. */
  readonly metrics: { readonly enabled: boolean; readonly host: string; readonly port: number }
  readonly accessLog: {
    readonly format: 'off' | 'json' | 'short'
    readonly samplePercent: number
    readonly file: string | null
  }
  readonly telemetry: TelemetrySettings
  /** Whether customers may record prompts and answers, and how long those are kept. */
  readonly content: { readonly isAllowed: boolean; readonly retentionDays: number }
  readonly reports: { readonly requestsPerMinute: number }
  readonly postgres: { readonly moneyConnections: number; readonly generalConnections: number }
  /**
   * When the end of an answer is sent: once its charge is in the journal of this node (`journal`), or once
   * PostgreSQL has committed the charge (`commit`).
   */
  readonly settlement: 'journal' | 'commit'
  readonly journal: { readonly fsync: boolean; readonly maxBytes: number }
  /** Null: the installation is not one of several cells. */
  readonly cells: CellSettings | null
  /** Failpoints for crash tests; empty in production. */
  readonly failpoints: readonly ArmedFailpoint[]
  /** Null unless systemd started this process as a unit of `Type=notify`. `watchdogMs`: how often it expects a message. */
  readonly systemd: { readonly watchdogMs: number | null } | null
}

export interface ConfigSource {
  readonly env: Environment
  /** The base of relative paths. */
  readonly cwd: string
  /** Overrides SWITCHYARD_CONFIG. The file must exist. */
  readonly file?: string | undefined
  /** Overrides PORT. */
  readonly port?: number | undefined
  /** The process serves, so it runs no command for a secret. */
  readonly isServing?: boolean | undefined
}

/**
 * The configuration is invalid. The message has one line per problem: where, line, key, what is wrong, what
 * is allowed.
 */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[]

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map(problemText).join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}

/** Returns the key for `switchyard host`, which reads no other setting; undefined when it is not set. */
export function hostKeyOfEnvironment(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env.SWITCHYARD_HOST_KEY?.trim() || undefined
}

/**
 * Reads the environment and `switchyard.yaml`. HOST, PORT, METRICS_HOST, METRICS_PORT, SMTP_PASSWORD, LOG_LEVEL and
 * LOG_FORMAT override
 * the file. Each variable can be in a file or come from a command: see `withSecretSources`.
 * Throws ConfigError with every problem found.
 */
export function loadConfig(source: Partial<ConfigSource> = {}): Config {
  const { cwd = process.cwd(), file } = source
  const given = source.env ?? process.env
  const problems: ConfigProblem[] = []
  const path = file ?? environmentSchema.shape.SWITCHYARD_CONFIG.safeParse(given.SWITCHYARD_CONFIG || undefined).data
  const isNamed = file !== undefined || isSet(given, 'SWITCHYARD_CONFIG')
  const text = path === undefined ? undefined : readFileText(resolve(cwd, path), isNamed, problems)
  const names = new Set([...Object.keys(environmentSchema.shape), ...cloudKeyNames, ...variablesIn(text ?? '')])
  const env = withSecretSources(given, names, problems, source.isServing)
  const variables = environmentOf(env, problems)
  if (path === undefined) throw new ConfigError(problems)
  const environment = variables && { ...variables, PORT: source.port ?? variables.PORT }
  const settings = readSettings(text ?? '', normalize(path), env, problems)
  const auto = settings && autoSettings(settings.routing.auto, cwd, problems)
  const canariesFile = settings?.trust.canaries_file
  const canaries = canariesFile === undefined ? [] : readCanaries(resolve(cwd, canariesFile), problems)
  const corpusFile = settings?.trust.corpus_file
  const corpus = corpusFile === undefined ? [] : readCorpus(resolve(cwd, corpusFile), problems)
  if (environment !== undefined && settings !== undefined)
    problems.push(
      ...portProblems(environment, settings, normalize(path)),
      ...backupProblems(settings.backup, environment.DATABASE_URL !== undefined, normalize(path)),
      ...usageProblems(settings, normalize(path)),
    )
  if (environment === undefined || settings === undefined || auto === undefined || problems.length > 0)
    throw new ConfigError(problems)
  const providers = readProviders(settings.payments)
  const live = runTimeSettings(settings)
  return deeplyFrozen({
    configFile: text === undefined ? null : resolve(cwd, path),
    written: withPlainNumbers(readYaml(text ?? '', path, env).value ?? {}) as JsonObject,
    dataDir: resolve(cwd, environment.SWITCHYARD_DATA),
    databaseUrl: environment.DATABASE_URL ?? null,
    databaseOwnerUrl: environment.DATABASE_OWNER_URL ?? null,
    databaseDeskUrl: environment.DATABASE_DESK_URL ?? null,
    masterKey: environment.SWITCHYARD_MASTER_KEY ?? null,
    initEmail: environment.SWITCHYARD_INIT_EMAIL,
    log: {
      level: environment.LOG_LEVEL ?? settings.log.level,
      format: environment.LOG_FORMAT ?? settings.log.format,
    },
    server: {
      host: environment.HOST ?? settings.server.host,
      port: environment.PORT ?? settings.server.port,
      publicBaseUrl: settings.server.public_base_url?.replace(/\/v1$/, '') ?? null,
      allowedHosts: settings.server.allowed_hosts,
      trustedProxies: settings.server.trusted_proxies,
      workers: settings.server.workers,
      drainDelaySeconds: settings.server.drain_delay_seconds,
      drainSeconds: settings.server.drain_seconds,
      maxInFlight: settings.server.max_in_flight,
      maxConnections: settings.server.max_connections ?? null,
      bodyLimitBytes: settings.server.body_limit_bytes,
      memoryBudgetBytes: settings.server.memory_budget_bytes ?? null,
      pingSeconds: settings.server.ping_seconds,
    },
    limits: live.limits,
    accountTiers: live.accountTiers,
    signup: live.signup,
    accounts: {
      signUp: settings.accounts.sign_up,
      ...live.accounts,
      oidc: settings.accounts.oidc.map(({ id, name, issuer, client_id, client_secret, scopes, groups }) => ({
        id,
        name,
        issuer,
        clientId: client_id,
        clientSecret: client_secret ?? null,
        scopes,
        groups,
      })),
    },
    payments: {
      ...live.payments,
      instructions: settings.payments.manual.instructions ?? null,
      ...providers,
    },
    payouts: {
      ...live.payouts,
      ...payoutOptions(settings.payouts, providers),
    },
    platform: live.platform,
    models: live.models,
    demo: {
      enabled: settings.demo.enabled,
      tokensPerSecond: settings.demo.tokens_per_second,
      firstTokenMs: settings.demo.first_token_ms,
      price: priceOf(settings.demo.price_per_million_usd),
    },
    detect: {
      enabled: settings.detect.enabled,
      localPrice: priceOf(settings.detect.local_price_per_million_usd),
      ports: settings.detect.ports,
      repeatSeconds: settings.detect.repeat_seconds,
      cloud: settings.detect.cloud,
      cloudKeys: Object.fromEntries(cloudKeyNames.flatMap(name => (isSet(env, name) ? [[name, env[name]]] : []))),
    },
    chat: { forwardFields: settings.chat.forward_fields },
    endpoints: settings.endpoints,
    trust: {
      audits: settings.trust.audits,
      auditMinutes: settings.trust.audit_minutes,
      shadowSeconds: settings.trust.shadow_seconds,
      evidenceDelayMinutes: settings.trust.evidence_delay_minutes,
      references: settings.trust.references ?? null,
      canaries,
      corpus,
    },
    routing: { ...live.routing, auto },
    hosters: { allowPrivateUrls: settings.hosters.allow_private_urls, ...live.hosters },
    alerts: { allowPrivateUrls: settings.alerts.allow_private_urls },
    audit: { keepAddressesDays: settings.audit.keep_addresses_days },
    alarms: {
      ...live.alarms,
      webhookUrl: settings.alarms.webhook_url ?? null,
      webhookSecret: settings.alarms.webhook_secret ?? null,
    },
    security: { contact: settings.security.contact ?? null },
    status: live.status,
    smtp: {
      host: settings.smtp.host ?? null,
      port: settings.smtp.port,
      security: settings.smtp.security,
      user: settings.smtp.user ?? null,
      password: environment.SMTP_PASSWORD ?? settings.smtp.password ?? null,
      from: settings.smtp.from,
    },
    metrics: {
      enabled: settings.metrics.enabled,
      host: environment.METRICS_HOST ?? settings.metrics.host,
      port: environment.METRICS_PORT ?? settings.metrics.port,
    },
    accessLog: {
      format: settings.access_log.format,
      samplePercent: settings.access_log.sample_percent,
      file: settings.access_log.file ?? null,
    },
    telemetry: telemetrySettings(environment, settings, foreignVariables(env)),
    backup: backupPlan(settings.backup, cwd),
    usage: usageSettings(settings, cwd, environment.SWITCHYARD_DATA),
    content: { isAllowed: settings.content.allow_recording, retentionDays: settings.content.retention_days },
    reports: { requestsPerMinute: settings.reports.requests_per_minute },
    postgres: {
      moneyConnections: settings.postgres.money_connections,
      generalConnections: settings.postgres.general_connections,
    },
    settlement: settings.settlement,
    journal: { fsync: settings.journal.fsync, maxBytes: settings.journal.max_bytes },
    cells: cellSettings(settings.cells),
    failpoints: environment.SWITCHYARD_FAILPOINTS ?? [],
    systemd:
      environment.NOTIFY_SOCKET === undefined
        ? null
        : { watchdogMs: environment.WATCHDOG_USEC === undefined ? null : environment.WATCHDOG_USEC / 1000 },
  })
}

/**
 * Returns the limits of an account tier. A tier that is no longer configured gets those of `free`, the
 * strictest tier that always exists.
 */
export function limitsOfTier(config: Pick<Config, 'accountTiers'>, tier: string): AccountLimits {
  return (Object.hasOwn(config.accountTiers, tier) ? config.accountTiers[tier] : config.accountTiers.free)!
}

function autoSettings(settings: FileSettings['routing']['auto'], cwd: string, problems: ConfigProblem[]): AutoSettings {
  const { model_file, models } = settings
  return {
    table: model_file === undefined ? null : readAutoTable(resolve(cwd, model_file), problems),
    quality: new Map(
      models.map(({ id, quality }) => {
        const figures = taskClasses.flatMap(name =>
          quality[name] === undefined ? [] : [[name, quality[name] / 10_000]],
        )
        return [id, Object.fromEntries(figures)]
      }),
    ),
    qualityFloor: settings.quality_floor_percent / 10_000,
    costWeight: settings.cost_weight_percent / 10_000,
    exploredPart: settings.explore_percent / 10_000,
  }
}

/** Metrics have a port of their own. 0 stands for any free one. */
function portProblems(
  environment: z.output<typeof environmentSchema>,
  { server, metrics }: FileSettings,
  where: string,
): ConfigProblem[] {
  const port = environment.PORT ?? server.port
  if (!metrics.enabled || port === 0 || port !== (environment.METRICS_PORT ?? metrics.port)) return []
  const message = `is ${port}, and so is server.port, PORT or --port; write another port, such as ${port === 9464 ? 9465 : 9464}`
  return [{ where, line: null, key: 'metrics.port', message }]
}

/** Parses the environment. Returns undefined and adds to `problems` when it is invalid. */
function environmentOf(env: Environment, problems: ConfigProblem[]): z.output<typeof environmentSchema> | undefined {
  const foreign: readonly string[] = foreignVariables(env)
  const variables = Object.fromEntries(
    Object.keys(environmentSchema.shape).flatMap(name =>
      isSet(env, name) && !foreign.includes(name) ? [[name, env[name]]] : [],
    ),
  )
  const parsed = environmentSchema.safeParse(variables)
  for (const { path, message } of parsed.error?.issues ?? []) {
    problems.push({ where: 'environment', line: null, key: keyPath(path), message })
  }
  return parsed.data
}

function readFileText(path: string, explicit: boolean, problems: ConfigProblem[]): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' && !explicit) return undefined
    const what =
      code === 'ENOENT'
        ? 'does not exist; check --config or SWITCHYARD_CONFIG'
        : `cannot be read: ${systemErrorText(error)}`
    problems.push({ where: path, line: null, key: null, message: what })
    return undefined
  }
}

function problemText({ where, line, column, key, message }: ConfigProblem): string {
  const place = [where, line ?? [], column ?? []].flat().join(':')
  return `${place}: ${key === null ? '' : `${key} `}${message}`
}

function deeplyFrozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.values(value).forEach(deeplyFrozen)
  return Object.freeze(value)
}
