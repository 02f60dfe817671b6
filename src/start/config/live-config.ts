import type { Config } from './config.ts'
import type { RunTimeSettings } from './run-time-settings.ts'

/** The configuration of a node, as it is at each moment. */
export interface LiveConfig {
  /** Its sections stay the same objects: read a setting where it is used, and do not keep it. */
  readonly config: Config
  /** Replaces the settings that can change while the gateway runs. */
  use(settings: RunTimeSettings): void
}

/** Requests read plain properties, so that settings that can change cost them nothing. */
export function createLiveConfig(config: Config): LiveConfig {
  const sections = copyOf(sectionsOf(config, {}))
  const live = { ...config, ...sections }
  return {
    config: live,
    use(settings) {
      const { accountTiers, ...changed } = sectionsOf(config, settings)
      // Its keys are names of the operator's, so it is replaced as a whole.
      live.accountTiers = accountTiers
      assign(live, changed)
    },
  }
}

type Sections = Pick<Config, keyof RunTimeSettings>

/** Settings of a section that cannot change while the gateway runs stay. */
function sectionsOf(config: Config, settings: Partial<RunTimeSettings>): Sections {
  return {
    limits: { ...config.limits, ...settings.limits },
    accountTiers: settings.accountTiers ?? config.accountTiers,
    signup: { ...config.signup, ...settings.signup },
    accounts: { ...config.accounts, ...settings.accounts },
    payments: { ...config.payments, ...settings.payments },
    payouts: { ...config.payouts, ...settings.payouts },
    platform: { ...config.platform, ...settings.platform },
    models: { ...config.models, ...settings.models },
    routing: { ...config.routing, ...settings.routing },
    hosters: { ...config.hosters, ...settings.hosters },
    alarms: { ...config.alarms, ...settings.alarms },
    status: { ...config.status, ...settings.status },
  }
}

/** Copies a section and those inside it. */
function copyOf<Section extends object>(section: Section): { -readonly [Key in keyof Section]: Section[Key] } {
  const entries = Object.entries(section).map(([key, value]) => [key, isSection(value) ? copyOf(value) : value])
  return Object.fromEntries(entries)
}

/** Writes the properties of `from` into the sections of `to`, which stay the same objects. */
function assign(to: object, from: object): void {
  for (const [key, value] of Object.entries(from)) {
    const inner = to[key as keyof typeof to] as unknown
    if (isSection(inner) && isSection(value)) assign(inner, value)
    else Object.assign(to, { [key]: value })
  }
}

function isSection(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}
