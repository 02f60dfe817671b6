import { t } from '@lingui/core/macro'
import { MultiSelect, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import type { Key } from '#api/keys.ts'
import { modelsQuery } from '../api/queries.ts'
import { readAmount } from '../format/typed-number.ts'
import { exactUsd } from '../format/usd-text.ts'
import { useCustomerId } from '../shell/use-session.ts'
import { AmountField } from './AmountField.tsx'
import { Field } from './FormFields.tsx'
import styles from './parts.module.css'

/** What a person types about a key. Amounts stay texts, so that they reach the gateway unchanged. */
export interface KeyInput {
  readonly name: string
  readonly limit: string
  readonly reset: 'none' | 'daily' | 'weekly' | 'monthly'
  readonly models: readonly string[]
  /** A local date such as 2026-12-31, or empty. */
  readonly expiresOn: string
  readonly label: string
  readonly mayManage: boolean
  readonly records: boolean
}

export const emptyKey: KeyInput = {
  name: '',
  limit: '',
  reset: 'monthly',
  models: [],
  expiresOn: '',
  label: '',
  mayManage: false,
  records: false,
}

/** The fields of the body of POST and PATCH that operators change too. */
export function keyBody({ name, limit, reset, models, expiresOn, label }: KeyInput) {
  const hasLimit = limit.trim() !== ''
  return {
    name,
    spend_limit_usd: hasLimit ? readAmount(limit) : null,
    ...(hasLimit && { limit_reset: reset }),
    allowed_models: models.length === 0 ? null : models,
    // The key works to the end of the chosen day, in the zone of the person.
    expires_at: expiresOn === '' ? null : new Date(`${expiresOn}T23:59:59`).toISOString(),
    label: label.trim() === '' ? null : label.trim(),
  }
}

/** The field that has the focus when a form opens. */
export type KeyField = 'name' | 'limit'

/** @param props.isNewLimit says what a new limit counts */
export function KeyFields({
  input,
  focus = 'name',
  isNewLimit = false,
  onChange,
}: {
  input: KeyInput
  focus?: KeyField
  isNewLimit?: boolean
  onChange: (input: KeyInput) => void
}) {
  const models = useQuery(modelsQuery(useCustomerId()))
  const set = (change: Partial<KeyInput>) => onChange({ ...input, ...change })
  return (
    <>
      <Field name="name">
        <TextInput
          label={t`Name`}
          description={t`What the key is for, such as laptop.`}
          required
          maxLength={200}
          value={input.name}
          onChange={event => set({ name: event.currentTarget.value })}
          data-autofocus={focus === 'name' || undefined}
        />
      </Field>
      <div className={styles.pair}>
        <Field name="spend_limit_usd">
          <AmountField
            label={t`Limit in USD`}
            placeholder="none"
            description={isNewLimit ? t`Counts what was spent since the last reset.` : undefined}
            value={input.limit}
            data-autofocus={focus === 'limit' || undefined}
            onText={text => set({ limit: text })}
          />
        </Field>
        <Select
          label={t`Resets`}
          description={isNewLimit ? t`At 00:00 UTC.` : undefined}
          data={[
            { value: 'daily', label: t`Every day` },
            { value: 'weekly', label: t`Every Monday` },
            { value: 'monthly', label: t`Every month` },
            { value: 'none', label: t`Never` },
          ]}
          value={input.reset}
          onChange={reset => set({ reset: (reset ?? 'monthly') as KeyInput['reset'] })}
        />
      </div>
      <MultiSelect
        label={t`Models`}
        placeholder={input.models.length === 0 ? t`all models` : ''}
        searchable
        data={models.data?.data.map(({ id }) => id) ?? []}
        value={[...input.models]}
        onChange={chosen => set({ models: chosen })}
      />
      <div className={styles.pair}>
        <Field name="expires_at">
          <TextInput
            label={t`Works until`}
            description={t`Empty: it never expires.`}
            type="date"
            value={input.expiresOn}
            onChange={event => set({ expiresOn: event.currentTarget.value })}
          />
        </Field>
        <TextInput
          label={t`Label`}
          description={t`Sums spend, such as by project.`}
          placeholder="none"
          maxLength={64}
          value={input.label}
          onChange={event => set({ label: event.currentTarget.value })}
        />
      </div>
    </>
  )
}

export function keyInputOf(key: Key): KeyInput {
  return {
    name: key.name,
    limit: key.limit_usd === null ? '' : exactUsd(key.limit_usd),
    reset: key.limit_usd === null ? 'monthly' : key.limit_reset,
    models: key.allowed_models ?? [],
    expiresOn: key.expires_at === null ? '' : localDate(new Date(key.expires_at)),
    label: key.label ?? '',
    mayManage: key.scopes.includes('manage'),
    records: key.record_content,
  }
}

function localDate(at: Date): string {
  const two = (value: number) => String(value).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
}
