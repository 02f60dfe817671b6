import { t } from '@lingui/core/macro'
import { type CSSVariablesResolver, createTheme } from '@mantine/core'

/** How buttons look. Colours come from tokens.css, so both schemes share one theme. */
const buttonColors: Readonly<Record<string, Record<string, string>>> = {
  filled: {
    '--button-bg': 'var(--ink)',
    '--button-hover': 'var(--ink-2)',
    '--button-color': 'var(--surface)',
    '--button-bd': '1px solid transparent',
  },
  default: {
    '--button-bg': 'var(--surface)',
    '--button-hover': 'var(--sunken)',
    '--button-color': 'var(--ink)',
    '--button-bd': '1px solid var(--control)',
  },
  subtle: {
    '--button-bg': 'transparent',
    '--button-hover': 'var(--sunken)',
    '--button-color': 'var(--link)',
    '--button-bd': '1px solid transparent',
  },
  danger: {
    '--button-bg': 'var(--danger)',
    '--button-hover': 'var(--danger)',
    '--button-color': 'var(--surface)',
    '--button-bd': '1px solid transparent',
  },
}

/** The sign of these buttons is a cross, which screen readers do not read. */
const shows = { 'aria-label': t`Show the password` }
const closes = { 'aria-label': t`Close` }

const floating = { transitionProps: { duration: 120 } }

export const theme = createTheme({
  fontFamily: '"Atkinson Hyperlegible Next Variable", system-ui, sans-serif',
  fontFamilyMonospace: '"Atkinson Hyperlegible Mono Variable", ui-monospace, monospace',
  fontSizes: { xs: '12px', sm: '14px', md: '14px', lg: '16px', xl: '20px' },
  lineHeights: { xs: '16px', sm: '20px', md: '20px', lg: '24px', xl: '28px' },
  spacing: { xs: '4px', sm: '8px', md: '12px', lg: '16px', xl: '24px' },
  radius: { xs: '4px', sm: '4px', md: '4px', lg: '8px', xl: '8px' },
  shadows: { xs: 'none', sm: 'none', md: 'var(--float)', lg: 'var(--float)', xl: 'var(--float)' },
  defaultRadius: 'sm',
  cursorType: 'pointer',
  respectReducedMotion: true,
  // Any class in the place of Mantine's, of which each draws a ring or hides that of base.css.
  focusClassName: 'ring',
  // Without the components themselves, which would all load with the first screen.
  components: {
    Button: {
      defaultProps: { size: 'sm' },
      vars: (_theme: unknown, { variant = 'filled' }: { variant?: string }) => ({ root: buttonColors[variant] ?? {} }),
    },
    ActionIcon: {
      defaultProps: { variant: 'subtle', size: 36 },
      vars: () => ({
        root: { '--ai-color': 'var(--ink-2)', '--ai-hover': 'var(--sunken)', '--ai-bg': 'transparent' },
      }),
    },
    TextInput: { defaultProps: { size: 'sm' } },
    PasswordInput: { defaultProps: { size: 'sm', visibilityToggleButtonProps: shows } },
    Textarea: { defaultProps: { size: 'sm', autosize: true } },
    Select: { defaultProps: { size: 'sm', allowDeselect: false, checkIconPosition: 'right' } },
    Checkbox: { defaultProps: { size: 'sm' } },
    SegmentedControl: {
      defaultProps: { size: 'sm', radius: 'sm', transitionDuration: 0, withItemsBorders: false },
      styles: { root: { background: 'var(--sunken)' }, indicator: { background: 'var(--surface)' } },
    },
    Modal: {
      // A click beside a dialog must not discard what was typed in it.
      defaultProps: { ...floating, centered: true, radius: 'lg', closeOnClickOutside: false, closeButtonProps: closes },
    },
    Drawer: { defaultProps: { ...floating, position: 'right', size: 640, closeButtonProps: closes } },
    Notification: { defaultProps: { closeButtonProps: closes } },
    Tooltip: { defaultProps: { events: { hover: true, focus: true, touch: true } } },
    Skeleton: { defaultProps: { radius: 'sm' } },
  },
})

const colors = {
  '--mantine-color-body': 'var(--surface)',
  '--mantine-color-text': 'var(--ink)',
  '--mantine-color-bright': 'var(--ink)',
  '--mantine-color-dimmed': 'var(--ink-2)',
  '--mantine-color-placeholder': 'var(--ink-3)',
  '--mantine-color-anchor': 'var(--link)',
  '--mantine-color-error': 'var(--danger)',
  '--mantine-color-default': 'var(--surface)',
  '--mantine-color-default-hover': 'var(--sunken)',
  '--mantine-color-default-color': 'var(--ink)',
  '--mantine-color-default-border': 'var(--control)',
  '--mantine-color-disabled': 'var(--sunken)',
  '--mantine-color-disabled-color': 'var(--ink-3)',
  '--mantine-color-disabled-border': 'var(--hairline)',
  '--mantine-primary-color-filled': 'var(--ink)',
  '--mantine-primary-color-filled-hover': 'var(--ink-2)',
  '--mantine-primary-color-contrast': 'var(--surface)',
  '--mantine-primary-color-light': 'var(--sunken)',
  '--mantine-primary-color-light-hover': 'var(--hairline)',
  '--mantine-primary-color-light-color': 'var(--ink)',
}

/** Points the variables of Mantine at the colours of tokens.css. */
export const mantineVariables: CSSVariablesResolver = () => ({ variables: {}, light: colors, dark: colors })
