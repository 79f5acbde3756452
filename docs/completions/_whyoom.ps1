
using namespace System.Management.Automation
using namespace System.Management.Automation.Language

Register-ArgumentCompleter -Native -CommandName 'whyoom' -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)

    $commandElements = $commandAst.CommandElements
    $command = @(
        'whyoom'
        for ($i = 1; $i -lt $commandElements.Count; $i++) {
            $element = $commandElements[$i]
            if ($element -isnot [StringConstantExpressionAst] -or
                $element.StringConstantType -ne [StringConstantType]::BareWord -or
                $element.Value.StartsWith('-') -or
                $element.Value -eq $wordToComplete) {
                break
        }
        $element.Value
    }) -join ';'

    $completions = @(switch ($command) {
        'whyoom' {
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Only this device (may be given again, or as 0,1)')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]')
            [CompletionResult]::new('--card', '--card', [CompletionResultType]::ParameterName, 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit')
            [CompletionResult]::new('--torch', '--torch', [CompletionResultType]::ParameterName, 'Model the allocator of this PyTorch release [default: inferred, else 2.11]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON (pretty or, with --json=compact, on one line)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--fail-on', '--fail-on', [CompletionResultType]::ParameterName, 'Exit with 1 if one of these causes is found with strong evidence or proof; `any` is every cause but healthy')
            [CompletionResult]::new('--source', '--source', [CompletionResultType]::ParameterName, 'Look for source files here too, to show the lines named (may be given again); with --json, put them in')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--bytes', '--bytes', [CompletionResultType]::ParameterName, 'Show exact bytes')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Keep to ASCII characters')
            [CompletionResult]::new('--tee', '--tee', [CompletionResultType]::ParameterName, 'Pass standard input on as it comes, and explain at its end')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('-V', '-V ', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('--version', '--version', [CompletionResultType]::ParameterName, 'Print version')
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Says why, who, and what would help (the default verb)')
            [CompletionResult]::new('replay', 'replay', [CompletionResultType]::ParameterValue, 'Checks that the model reproduces a recording, or tries other settings on it')
            [CompletionResult]::new('tune', 'tune', [CompletionResultType]::ParameterValue, 'Searches the allocator''s settings for those that reserve least')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Says what changed between two recordings: optimizer, batch, version, rank')
            [CompletionResult]::new('settings', 'settings', [CompletionResultType]::ParameterValue, 'Says what each PyTorch release makes of a PYTORCH_CUDA_ALLOC_CONF')
            [CompletionResult]::new('summary', 'summary', [CompletionResultType]::ParameterValue, 'Prints `memory_summary()` of a recording, at its end or at any event')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'whyoom;explain' {
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Only this device (may be given again, or as 0,1)')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]')
            [CompletionResult]::new('--card', '--card', [CompletionResultType]::ParameterName, 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit')
            [CompletionResult]::new('--torch', '--torch', [CompletionResultType]::ParameterName, 'Model the allocator of this PyTorch release [default: inferred, else 2.11]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON (pretty or, with --json=compact, on one line)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--fail-on', '--fail-on', [CompletionResultType]::ParameterName, 'Exit with 1 if one of these causes is found with strong evidence or proof; `any` is every cause but healthy')
            [CompletionResult]::new('--source', '--source', [CompletionResultType]::ParameterName, 'Look for source files here too, to show the lines named (may be given again); with --json, put them in')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--bytes', '--bytes', [CompletionResultType]::ParameterName, 'Show exact bytes')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Keep to ASCII characters')
            [CompletionResult]::new('--tee', '--tee', [CompletionResultType]::ParameterName, 'Pass standard input on as it comes, and explain at its end')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'whyoom;replay' {
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Only this device (may be given again, or as 0,1)')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]')
            [CompletionResult]::new('--card', '--card', [CompletionResultType]::ParameterName, 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit')
            [CompletionResult]::new('--torch', '--torch', [CompletionResultType]::ParameterName, 'Model the allocator of this PyTorch release [default: inferred, else 2.11]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON (pretty or, with --json=compact, on one line)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--settings', '--settings', [CompletionResultType]::ParameterName, 'Replay under this PYTORCH_CUDA_ALLOC_CONF instead of the recorded one; '''' is PyTorch''s defaults')
            [CompletionResult]::new('--empty-cache', '--empty-cache', [CompletionResultType]::ParameterName, 'Call `empty_cache()` after every step, every Nth step, every `zero_grad()`, or every evaluation')
            [CompletionResult]::new('--drop', '--drop', [CompletionResultType]::ParameterName, 'Leave out a group of allocations: leak, activations, gradients, `optimizer_state`, parameters, batch, or those made at a place as train.py:132, train.py or a function''s name (may be given again)')
            [CompletionResult]::new('--scale', '--scale', [CompletionResultType]::ParameterName, 'Scale a group''s requests, as batch=0.5 for half the batch (may be given again)')
            [CompletionResult]::new('--optimizer', '--optimizer', [CompletionResultType]::ParameterName, 'Replace the recorded optimizer''s state by that of another')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--bytes', '--bytes', [CompletionResultType]::ParameterName, 'Show exact bytes')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Keep to ASCII characters')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help (see more with ''--help'')')
            break
        }
        'whyoom;tune' {
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Only this device (may be given again, or as 0,1)')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]')
            [CompletionResult]::new('--card', '--card', [CompletionResultType]::ParameterName, 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit')
            [CompletionResult]::new('--torch', '--torch', [CompletionResultType]::ParameterName, 'Model the allocator of this PyTorch release [default: inferred, else 2.11]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON (pretty or, with --json=compact, on one line)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--bytes', '--bytes', [CompletionResultType]::ParameterName, 'Show exact bytes')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Keep to ASCII characters')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'whyoom;diff' {
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Only this device index (may be given again, or as 0,1)')
            [CompletionResult]::new('--torch', '--torch', [CompletionResultType]::ParameterName, 'Model the allocator of this PyTorch release [default: inferred, else 2.11]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON (pretty or, with --json=compact, on one line)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--bytes', '--bytes', [CompletionResultType]::ParameterName, 'Show exact bytes')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Keep to ASCII characters')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'whyoom;settings' {
            [CompletionResult]::new('--file', '--file', [CompletionResultType]::ParameterName, 'Read the text from a file')
            [CompletionResult]::new('--torch', '--torch', [CompletionResultType]::ParameterName, 'Ask only this PyTorch release (may be given again, or as 2.9,2.10) [default: all from 1.13 to 2.15]')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON (pretty or, with --json=compact, on one line)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--env', '--env', [CompletionResultType]::ParameterName, 'Read the variables of this environment')
            [CompletionResult]::new('--raw', '--raw', [CompletionResultType]::ParameterName, 'Take the text as the value itself, whatever it looks like')
            [CompletionResult]::new('--check', '--check', [CompletionResultType]::ParameterName, 'Exit with 1 if a release asked refuses the string, does not read its variable, or ignores a part of it')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--bytes', '--bytes', [CompletionResultType]::ParameterName, 'Show exact bytes')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Keep to ASCII characters')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'whyoom;summary' {
            [CompletionResult]::new('--device', '--device', [CompletionResultType]::ParameterName, 'Only this device (may be given again, or as 0,1)')
            [CompletionResult]::new('--limit', '--limit', [CompletionResultType]::ParameterName, 'What the allocator may reserve, as 9GiB or 9663676416; `none` for no limit [default: inferred]')
            [CompletionResult]::new('--card', '--card', [CompletionResultType]::ParameterName, 'The limit of a card with nothing else on it, as "RTX 3090", instead of --limit')
            [CompletionResult]::new('--torch', '--torch', [CompletionResultType]::ParameterName, 'Model the allocator of this PyTorch release [default: inferred, else 2.11]')
            [CompletionResult]::new('--at', '--at', [CompletionResultType]::ParameterName, 'After which event: its index, the peak of allocated bytes, the last failed request, or the end')
            [CompletionResult]::new('--json', '--json', [CompletionResultType]::ParameterName, 'Write JSON (pretty or, with --json=compact, on one line)')
            [CompletionResult]::new('--color', '--color', [CompletionResultType]::ParameterName, 'When to use colours')
            [CompletionResult]::new('--explain', '--explain', [CompletionResultType]::ParameterName, 'Say what lies between requested, allocated, active, reserved and the limit')
            [CompletionResult]::new('-v', '-v', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--verbose', '--verbose', [CompletionResultType]::ParameterName, 'Show everything, not only what matters most')
            [CompletionResult]::new('--bytes', '--bytes', [CompletionResultType]::ParameterName, 'Show exact bytes')
            [CompletionResult]::new('--ascii', '--ascii', [CompletionResultType]::ParameterName, 'Keep to ASCII characters')
            [CompletionResult]::new('-h', '-h', [CompletionResultType]::ParameterName, 'Print help')
            [CompletionResult]::new('--help', '--help', [CompletionResultType]::ParameterName, 'Print help')
            break
        }
        'whyoom;help' {
            [CompletionResult]::new('explain', 'explain', [CompletionResultType]::ParameterValue, 'Says why, who, and what would help (the default verb)')
            [CompletionResult]::new('replay', 'replay', [CompletionResultType]::ParameterValue, 'Checks that the model reproduces a recording, or tries other settings on it')
            [CompletionResult]::new('tune', 'tune', [CompletionResultType]::ParameterValue, 'Searches the allocator''s settings for those that reserve least')
            [CompletionResult]::new('diff', 'diff', [CompletionResultType]::ParameterValue, 'Says what changed between two recordings: optimizer, batch, version, rank')
            [CompletionResult]::new('settings', 'settings', [CompletionResultType]::ParameterValue, 'Says what each PyTorch release makes of a PYTORCH_CUDA_ALLOC_CONF')
            [CompletionResult]::new('summary', 'summary', [CompletionResultType]::ParameterValue, 'Prints `memory_summary()` of a recording, at its end or at any event')
            [CompletionResult]::new('help', 'help', [CompletionResultType]::ParameterValue, 'Print this message or the help of the given subcommand(s)')
            break
        }
        'whyoom;help;explain' {
            break
        }
        'whyoom;help;replay' {
            break
        }
        'whyoom;help;tune' {
            break
        }
        'whyoom;help;diff' {
            break
        }
        'whyoom;help;settings' {
            break
        }
        'whyoom;help;summary' {
            break
        }
        'whyoom;help;help' {
            break
        }
    })

    $completions.Where{ $_.CompletionText -like "$wordToComplete*" } |
        Sort-Object -Property ListItemText
}
