import { t } from '@lingui/core/macro'
import { Checkbox, Select, TextInput } from '@mantine/core'
import type { Manifest } from '#api/hoster-manifest.ts'
import { Field } from '../../parts/FormFields.tsx'
import styles from './hoster.module.css'

/** The terms of a hoster as they are typed. */
export interface TermsInput {
  /** Empty: not stated. */
  readonly region: string
  readonly kept: 'unstated' | 'no' | 'days' | 'forever'
  readonly days: string
  readonly trains: boolean
}

export function termsInput({ region, data_policy: policy }: Manifest): TermsInput {
  const days = policy?.retention_days
  return {
    region: region ?? '',
    kept: policy == null ? 'unstated' : days === null ? 'forever' : days === 0 ? 'no' : 'days',
    days: String(days || 30),
    trains: policy?.trains_on_data ?? false,
  }
}

/**
 * Returns the part of the manifest to send. A number that cannot be read is sent as text, and the gateway refuses it.
 */
export function typedTerms({ region, kept, days, trains }: TermsInput): Pick<Manifest, 'region' | 'data_policy'> {
  const typedDays = (/^\d+$/.test(days.trim()) ? Number(days) : days) as number
  const retention = kept === 'forever' ? null : kept === 'no' ? 0 : typedDays
  return {
    region: region.trim() === '' ? null : region.trim().toUpperCase(),
    data_policy: kept === 'unstated' ? null : { trains_on_data: trains, retention_days: retention },
  }
}

/** Where the servers are and what happens to prompts. */
export function TermsFields({ input, onChange }: { input: TermsInput; onChange: (input: TermsInput) => void }) {
  const { region, kept, days, trains } = input
  return (
    <>
      <Field name="region">
        <TextInput
          label={t`Region`}
          description={t`The country of your servers: two letters, such as DE.`}
          placeholder={t`not stated`}
          maxLength={2}
          value={region}
          onChange={event => onChange({ ...input, region: event.currentTarget.value })}
        />
      </Field>
      <div className={styles.pair}>
        <Select
          label={t`Prompts and answers are kept`}
          allowDeselect={false}
          value={kept}
          onChange={value => value !== null && onChange({ ...input, kept: value as TermsInput['kept'] })}
          data={[
            { value: 'unstated', label: t`Not stated` },
            { value: 'no', label: t`Not at all` },
            { value: 'days', label: t`For some days` },
            { value: 'forever', label: t`Without limit` },
          ]}
        />
        {kept === 'days' && (
          <Field name="data_policy.retention_days">
            <TextInput
              label={t`Days`}
              inputMode="numeric"
              required
              value={days}
              onChange={event => onChange({ ...input, days: event.currentTarget.value })}
            />
          </Field>
        )}
      </div>
      {kept === 'unstated' ? (
        <p className={styles.hint}>{t`Without a data policy, customers must assume the worst.`}</p>
      ) : (
        <Checkbox
          label={t`Prompts or answers train models`}
          checked={trains}
          onChange={event => onChange({ ...input, trains: event.currentTarget.checked })}
        />
      )}
    </>
  )
}
