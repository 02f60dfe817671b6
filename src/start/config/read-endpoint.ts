import type { Offer } from '../../base/domain/offer.ts'
import { SupplyError } from '../../base/domain/supply-error.ts'
import type { JsonObject } from '../../base/runtime/json-object.ts'
import { configuredOffers } from './configured-offers.ts'
import { readSettings } from './read-settings.ts'
import type { ConfigProblem } from './read-yaml.ts'

/**
 * Turns an entry of `endpoints`, given as JSON, into offers as if switchyard.yaml had it; none if it is not enabled. Variables of the
 * environment are not replaced in it. Throws SupplyError `invalid_value` that names each wrong key and what is allowed.
 */
export function readEndpoint(entry: JsonObject): readonly Offer[] {
  const problems: ConfigProblem[] = []
  // JSON is YAML. What the file would replace stays as it is.
  const text = JSON.stringify({ endpoints: [entry] }).replaceAll('${', '$${')
  const settings = readSettings(text, 'provider', {}, problems)
  if (settings === undefined || problems.length > 0) {
    const texts = problems.map(
      ({ key, message }) => `${(key ?? '').replace(/^endpoints\[0\]\.?/, '') || 'It'} ${message}.`,
    )
    throw new SupplyError('invalid_value', texts.join(' '))
  }
  return configuredOffers(settings)
}
