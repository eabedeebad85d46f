"""The machine itself."""

import pytest


@pytest.mark.check("machine.clock.past")
def test_the_clock_is_not_in_the_past(judged):
    judged()


@pytest.mark.check("machine.clock.jump")
def test_the_clock_runs_evenly(judged):
    judged()


@pytest.mark.check("machine.identity.architecture")
def test_the_processor_is_of_the_declared_architecture(judged):
    judged()


@pytest.mark.check("machine.identity.product")
def test_the_board_is_the_declared_product(judged):
    judged()


@pytest.mark.check("machine.identity.virtualization")
def test_the_box_is_as_real_or_virtual_as_declared(judged):
    judged()


@pytest.mark.check("machine.identity.container")
def test_the_suite_runs_in_the_declared_container(judged):
    judged()


@pytest.mark.check("machine.memory.total")
def test_all_declared_memory_is_there(judged):
    judged()


@pytest.mark.check("machine.memory.available")
def test_enough_memory_is_free(judged):
    judged()


@pytest.mark.check("machine.cpu.threads")
def test_engine_threads_fit_the_cpus_it_may_use(judged):
    judged()


@pytest.mark.check("machine.disk.inodes")
def test_files_can_be_created(judged):
    judged()


@pytest.mark.check("machine.disk.free")
def test_there_is_room_for_what_has_to_go_there(judged):
    judged()


@pytest.mark.check("machine.memory.limit")
def test_a_model_gets_the_memory_that_it_needs(judged):
    judged()


@pytest.mark.check("machine.memory.swap")
def test_there_is_no_more_swap_than_declared(judged):
    judged()


@pytest.mark.check("machine.limits.memlock")
def test_rdma_may_lock_the_memory_that_it_works_with(judged):
    judged()


@pytest.mark.check("machine.limits.shm")
def test_processes_on_several_gpus_can_share_memory(judged):
    judged()


@pytest.mark.check("machine.limits.nofile")
def test_an_engine_may_hold_as_many_files_open_as_it_needs(judged):
    judged()


@pytest.mark.check("machine.limits.pids")
def test_as_many_threads_can_be_started_as_are_asked_for(judged):
    judged()


@pytest.mark.check("machine.disk.filesystem")
def test_each_folder_lies_on_something_that_can_hold_what_goes_there(judged):
    judged()


@pytest.mark.check("machine.disk.locks")
def test_files_in_the_model_cache_can_be_locked(judged):
    judged()


@pytest.mark.check("machine.log.kernel")
def test_the_kernels_log_can_be_read(judged):
    judged()


@pytest.mark.check("machine.kernel.parameters")
def test_the_kernel_was_started_with_the_declared_parameters(judged):
    judged()


@pytest.mark.check("machine.kernel.modules")
def test_the_declared_kernel_modules_are_loaded(judged):
    judged()


@pytest.mark.check("machine.clock.discipline")
def test_something_keeps_the_clock_right(judged):
    judged()


@pytest.mark.check("machine.clock.rtc")
def test_the_clock_of_the_board_tells_the_day(judged):
    judged()


@pytest.mark.check("machine.cpu.model")
def test_the_processor_is_the_declared_model(judged):
    judged()


@pytest.mark.check("machine.cpu.count")
def test_all_declared_cpus_are_online(judged):
    judged()


@pytest.mark.check("machine.cpu.instructions")
def test_the_processor_has_the_declared_instruction_sets(judged):
    judged()


@pytest.mark.check("machine.cpu.governor")
def test_the_processor_may_run_as_fast_as_declared(judged):
    judged()


@pytest.mark.check("machine.cpu.throttling")
def test_heat_does_not_slow_the_processor_down(judged):
    judged()


@pytest.mark.check("machine.numa.nodes")
def test_memory_and_cpus_are_divided_as_declared(judged):
    judged()


@pytest.mark.check("machine.devices.driver")
def test_a_driver_holds_each_gpu(judged):
    judged()


@pytest.mark.check("machine.devices.gpus")
def test_all_declared_gpus_are_there(judged):
    judged()


@pytest.mark.check("machine.leftovers.visibility")
def test_no_leftover_variable_hides_the_gpus(judged):
    judged()


@pytest.mark.check("machine.leftovers.gfx-override")
def test_no_leftover_variable_makes_a_gpu_pass_for_another(judged):
    judged()


@pytest.mark.check("machine.leftovers.mps")
def test_gpus_are_shared_between_processes_as_declared(judged):
    judged()


@pytest.mark.check("machine.python.dependencies")
def test_what_is_installed_for_python_fits_together(judged):
    judged()
